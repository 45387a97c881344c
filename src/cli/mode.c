/* mode.c - modes as chmod(1) takes them: octal, or clauses like u+x,go=rX. Pure. */
#include "cli/cli_internal.h"

#include <string.h>
#include <sys/stat.h>

#define ALL_BITS 07777u

static bool change_octal(const char *word, uint32_t *mode)
{
	uint32_t value = 0;

	if (!*word || strlen(word) > 5)
		return false;
	for (; *word; word++) {
		if (*word < '0' || *word > '7')
			return false;
		value = value << 3 | (uint32_t)(*word - '0');
	}
	if (value > ALL_BITS)
		return false;
	*mode = (*mode & ~ALL_BITS) | value;
	return true;
}

/* The bits that belong to whom, letters of "ugoa"; 0: not such a letter. */
static uint32_t bits_of_who(char letter)
{
	switch (letter) {
	case 'u':
		return S_ISUID | S_IRWXU;
	case 'g':
		return S_ISGID | S_IRWXG;
	case 'o':
		return S_ISVTX | S_IRWXO;
	case 'a':
		return ALL_BITS;
	default:
		return 0;
	}
}

/* The bits that a letter behind the operator means for everybody; of "ugo": a copy of theirs. */
static bool bits_of_what(char letter, uint32_t mode, uint32_t *bits)
{
	uint32_t copied;

	switch (letter) {
	case 'r':
		*bits |= 0444u;
		return true;
	case 'w':
		*bits |= 0222u;
		return true;
	case 'x':
		*bits |= 0111u;
		return true;
	case 'X':
		if (S_ISDIR(mode) || mode & 0111u)
			*bits |= 0111u;
		return true;
	case 's':
		*bits |= S_ISUID | S_ISGID;
		return true;
	case 't':
		*bits |= S_ISVTX;
		return true;
	case 'u':
		copied = mode >> 6 & 7u;
		break;
	case 'g':
		copied = mode >> 3 & 7u;
		break;
	case 'o':
		copied = mode & 7u;
		break;
	default:
		return false;
	}
	*bits |= copied * 0111u;
	return true;
}

static void apply(char operator, uint32_t who, uint32_t bits, uint32_t *mode)
{
	/* As chmod(1): "=" leaves a directory's set-id bits alone unless they are named. */
	uint32_t keep = S_ISDIR(*mode) && !(bits & (S_ISUID | S_ISGID)) ? S_ISUID | S_ISGID : 0;

	bits &= who;
	if (operator== '+')
		*mode |= bits;
	else if (operator== '-')
		*mode &= ~bits;
	else
		*mode = (*mode & ~(who & ~keep)) | bits;
}

/* One clause: who, then operators, each with letters. Returns its end, NULL: it is none. */
static const char *change_clause(const char *p, uint32_t mask, uint32_t *mode)
{
	uint32_t who = 0;
	uint32_t allowed;

	while (bits_of_who(*p))
		who |= bits_of_who(*p++);
	allowed = who ? ALL_BITS : ALL_BITS & ~mask; /* nobody named: the umask counts */
	if (!who)
		who = ALL_BITS;
	if (!*p || !strchr("+-=", *p))
		return NULL;
	while (*p && strchr("+-=", *p)) {
		char operator= * p++;
		uint32_t bits = 0;

		while (*p && bits_of_what(*p, *mode, &bits))
			p++;
		apply(operator, who, bits & allowed, mode);
	}
	return *p == '\0' || *p == ',' ? p : NULL;
}

bool stet_cli_change_mode_(const char *word, uint32_t mode, uint32_t mask, uint32_t *ret)
{
	if (word[0] >= '0' && word[0] <= '9') {
		if (!change_octal(word, &mode))
			return false;
		*ret = mode;
		return true;
	}
	for (;;) {
		word = change_clause(word, mask, &mode);
		if (!word)
			return false;
		if (!*word)
			break;
		word++;
	}
	*ret = mode;
	return true;
}
