/* user.c - who performs a statement.
 *
 * The saved ids stay 0, which is the way back.
 */
#include "script.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "internal.h"

static const struct user {
	char letter;
	uid_t uid;
	gid_t gid;
	gid_t group; /* one more, 0: none */
} users[] = {
	{ 'a', 1001, 1001, 0 },    { 'b', 1002, 1002, 0 },
	{ 'c', 1003, 1003, 1100 }, { 'd', 1001, 1001, 1100 }, /* a, in the group */
	{ 'e', 1004, 1100, 0 },
};

bool user_become(char who)
{
	for (size_t i = 0; i < COUNT(users); i++) {
		const struct user *user = &users[i];

		if (user->letter != who)
			continue;
		if (setgroups(user->group ? 1 : 0, &user->group) != 0 ||
		    setresgid(user->gid, user->gid, 0) != 0 ||
		    setresuid(user->uid, user->uid, 0) != 0)
			return false;
		prctl(PR_SET_DUMPABLE, 1); /* or /proc/self/fd were root's */
		return true;
	}
	return false;
}

void user_be_root(void)
{
	if (setresuid(0, 0, 0) != 0 || setresgid(0, 0, 0) != 0 || setgroups(0, NULL) != 0) {
		perror("cannot be root again");
		exit(1);
	}
	prctl(PR_SET_DUMPABLE, 1);
}
