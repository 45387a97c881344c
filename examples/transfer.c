/* transfer.c - many threads move money between accounts, each account a file; no cent is lost.
 *
 *	transfer IMAGE
 *
 * A transfer reads two files and writes both, in one transaction. When two transfers touch the same
 * account, one of them fails with -EBUSY (or -EDEADLK) and simply tries again. An auditor adds up all
 * accounts now and then: it reads one consistent state and never disturbs the others.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stetfs.h>

#define ACCOUNTS 10
#define THREADS 8
#define TRANSFERS 50
#define START 1000

struct clerk {
	struct stet_volume *vol;
	pthread_t thread;
	unsigned seed;
	int rc;
	int retries;
};

static void account_name(int account, char name[32])
{
	snprintf(name, 32, "account-%d", account);
}

static int get(struct stet_volume *vol, struct stet_txn *txn, int account, long *ret)
{
	struct stet_file *file;
	char name[32], text[16] = { 0 };
	ssize_t n;
	int rc;

	account_name(account, name);
	rc = stet_openat(vol, txn, STET_ROOT, name, O_RDONLY, 0, &file);
	if (rc)
		return rc;
	n = stet_pread(file, text, sizeof(text) - 1, 0);
	stet_file_close(file);
	if (n < 0)
		return (int)n;
	*ret = strtol(text, NULL, 10);
	return 0;
}

static int put(struct stet_volume *vol, struct stet_txn *txn, int account, long amount)
{
	struct stet_file *file;
	char name[32], text[16];
	ssize_t n;
	int rc;

	account_name(account, name);
	snprintf(text, sizeof(text), "%010ld\n", amount);
	rc = stet_openat(vol, txn, STET_ROOT, name, O_WRONLY | O_CREAT, 0600, &file);
	if (rc)
		return rc;
	n = stet_pwrite(file, text, strlen(text), 0);
	stet_file_close(file);
	return n < 0 ? (int)n : 0;
}

static int move(struct stet_volume *vol, struct stet_txn *txn, int from, int to, long amount)
{
	long a = 0, b = 0;
	int rc = get(vol, txn, from, &a);

	if (!rc)
		rc = get(vol, txn, to, &b);
	if (!rc)
		rc = put(vol, txn, from, a - amount);
	if (!rc)
		rc = put(vol, txn, to, b + amount);
	return rc;
}

static int transfer_once(struct stet_volume *vol, int from, int to, long amount)
{
	struct stet_txn *txn;
	int rc = stet_begin(vol, 0, &txn);

	if (rc)
		return rc;
	rc = move(vol, txn, from, to, amount);
	if (!rc)
		rc = stet_commit(txn, 0);
	if (rc)
		stet_abort(txn);
	return rc;
}

static void *work(void *arg)
{
	struct clerk *clerk = arg;

	for (int i = 0; i < TRANSFERS && !clerk->rc; i++) {
		int from = rand_r(&clerk->seed) % ACCOUNTS;
		int to = (from + 1 + rand_r(&clerk->seed) % (ACCOUNTS - 1)) % ACCOUNTS;

		do {
			clerk->rc = transfer_once(clerk->vol, from, to, 1 + i);
			clerk->retries += clerk->rc != 0;
		} while (clerk->rc == -EBUSY || clerk->rc == -EDEADLK);
		if (clerk->rc)
			fprintf(stderr, "transfer: %s\n", stet_error_text());
	}
	return NULL;
}

/* Adds up all accounts, as of one moment. */
static int audit(struct stet_volume *vol, long *ret_total)
{
	struct stet_txn *txn;
	long total = 0, amount = 0;
	int rc = stet_begin(vol, STET_BEGIN_READ_ONLY, &txn);

	if (rc)
		return rc;
	for (int account = 0; account < ACCOUNTS && !rc; account++) {
		rc = get(vol, txn, account, &amount);
		total += amount;
	}
	stet_abort(txn);
	*ret_total = total;
	return rc;
}

static int check_total(struct stet_volume *vol)
{
	long total = 0;
	int rc = audit(vol, &total);

	if (!rc && total != (long)ACCOUNTS * START) {
		fprintf(stderr, "transfer: %ld, not %d\n", total, ACCOUNTS * START);
		rc = -EUCLEAN;
	}
	return rc;
}

static int run(struct stet_volume *vol)
{
	struct clerk clerks[THREADS];
	int rc = 0, retries = 0;

	for (int account = 0; account < ACCOUNTS && !rc; account++)
		rc = put(vol, NULL, account, START);
	if (rc)
		return rc;
	for (unsigned i = 0; i < THREADS; i++) {
		clerks[i] = (struct clerk){ .vol = vol, .seed = i };
		if (pthread_create(&clerks[i].thread, NULL, work, &clerks[i]) != 0)
			abort();
	}
	for (int i = 0; i < 20 && !rc; i++)
		rc = check_total(vol);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(clerks[i].thread, NULL);
		retries += clerks[i].retries;
		rc = rc ? rc : clerks[i].rc;
	}
	printf("%d transfers, %d retries\n", THREADS * TRANSFERS, retries);
	return rc ? rc : check_total(vol);
}

int main(int argc, char **argv)
{
	struct stet_mkfs_options options = { .size_bytes = (uint64_t)32 << 20, .force = true };
	struct stet_volume *vol;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: transfer IMAGE (made anew; one that is mounted is used as "
				"it is, once)\n");
		return 2;
	}
	rc = stet_mkfs(argv[1], &options);
	if (!rc || rc == -EBUSY || rc == -EACCES) /* busy: mounted, say; then it is used as it is */
		rc = stet_open(argv[1], NULL, &vol);
	if (!rc) {
		rc = run(vol);
		if (stet_close(vol) != 0)
			rc = -EIO;
	}
	if (!rc && (rc = stet_open(argv[1], NULL, &vol)) == 0) {
		rc = check_total(vol); /* still there after reopening */
		if (stet_close(vol) != 0)
			rc = -EIO;
	}
	if (rc)
		fprintf(stderr, "transfer: %s (%s)\n", strerror(-rc), stet_error_text());
	return rc ? 1 : 0;
}
