/* rows_xattr.c - extended attributes. */
#include "conformance.h"
#include "nodes.h"

#define CAPABILITY "{#0100000200200000000000000000000000000000}"

static const struct row rows[] = {
	{ "xattr/new", "put f", "setxattr f user.k value", "0",
	  "getxattr f user.k => 'value'; listxattr f => 'user.k'" },
	{ "xattr/replaced", "put f; setxattr f user.k one", "setxattr f user.k two2", "0",
	  "getxattr f user.k => 'two2'" },
	{ "xattr/empty-value", "put f", "setxattr f user.k ''", "0",
	  "getxattr f user.k => ''; getxattr f user.k 0 => 0; listxattr f => 'user.k'" },
	{ "xattr/create", "put f", "setxattr f user.k v create", "0" },
	{ "xattr/create-existing", "put f; setxattr f user.k v", "setxattr f user.k w create",
	  "EEXIST", "getxattr f user.k => 'v'" },
	{ "xattr/replace", "put f; setxattr f user.k v", "setxattr f user.k w replace", "0",
	  "getxattr f user.k => 'w'" },
	{ "xattr/replace-absent", "put f", "setxattr f user.k w replace", "ENODATA",
	  "listxattr f => ''" },
	{ "xattr/create-and-replace-absent", "put f", "setxattr f user.k w create|replace",
	  "ENODATA", NULL, ON(LIBRARY, NULL, LIBRARY_XATTR_FLAGS) },
	{ "xattr/create-and-replace-existing", "put f; setxattr f user.k v",
	  "setxattr f user.k w create|replace", "EEXIST", NULL,
	  ON(LIBRARY, NULL, LIBRARY_XATTR_FLAGS) },
	{ "xattr/bad-flags", "put f", "setxattr f user.k w bad", "EINVAL" },
	{ "xattr/get-absent", "put f", "getxattr f user.k", "ENODATA" },
	{ "xattr/get-too-small", "put f; setxattr f user.k value", "getxattr f user.k 3",
	  "ERANGE" },
	{ "xattr/get-exact", "put f; setxattr f user.k value", "getxattr f user.k 5", "'value'" },
	{ "xattr/get-length", "put f; setxattr f user.k value", "getxattr f user.k 0", "5" },
	{ "xattr/list-empty", "put f", "listxattr f", "''" },
	{ "xattr/list-empty-length", "put f", "listxattr f 0", "0" },
	{ "xattr/list-length", "put f; setxattr f user.k v; setxattr f user.kk v", "listxattr f 0",
	  "15" },
	{ "xattr/list-too-small", "put f; setxattr f user.k v", "listxattr f 3", "ERANGE" },
	{ "xattr/list-several",
	  "put f; setxattr f user.c v; setxattr f user.a v; setxattr f user.b v", "listxattr f",
	  "'user.a,user.b,user.c'" },
	{ "xattr/remove", "put f; setxattr f user.k v", "removexattr f user.k", "0",
	  "getxattr f user.k => ENODATA; listxattr f => ''" },
	{ "xattr/remove-absent", "put f", "removexattr f user.k", "ENODATA" },
	{ "xattr/remove-one-of-two", "put f; setxattr f user.k v; setxattr f user.l w",
	  "removexattr f user.k", "0", "getxattr f user.l => 'w'" },
	{ "xattr/name-255", "put f", "setxattr f user.{n*250} v", "0",
	  "getxattr f user.{n*250} => 'v'; listxattr f => 'user.{n*250}'" },
	{ "xattr/name-256", "put f", "setxattr f user.{n*251} v", "ERANGE" },
	{ "xattr/get-name-256", "put f", "getxattr f user.{n*251}", "ERANGE" },
	{ "xattr/remove-name-256", "put f", "removexattr f user.{n*251}", "ERANGE" },
	{ "xattr/empty-name", "put f", "setxattr f '' v", "ERANGE" },
	{ "xattr/only-namespace", "put f", "setxattr f user. v", "EINVAL" },
	{ "xattr/no-namespace", "put f", "setxattr f k v", "EOPNOTSUPP" },
	{ "xattr/unknown-namespace", "put f", "setxattr f other.k v", "EOPNOTSUPP" },
	{ "xattr/get-unknown-namespace", "put f", "getxattr f other.k", "EOPNOTSUPP" },
	{ "xattr/remove-unknown-namespace", "put f", "removexattr f other.k", "EOPNOTSUPP" },
	{ "xattr/unknown-system", "put f", "setxattr f system.k v", "EOPNOTSUPP" },
	{ "xattr/name-with-any-bytes", "put f", "setxattr f user.{#01ff80} v", "0",
	  "getxattr f user.{#01ff80} => 'v'" },
	{ "xattr/name-case", "put f; setxattr f user.k v", "getxattr f user.K", "ENODATA" },
	{ "xattr/value-of-any-bytes", "put f", "setxattr f user.k {#0001fe00ff}", "0",
	  "getxattr f user.k => '{#0001fe00ff}'" },
	{ "xattr/value-1000", "put f", "setxattr f user.k {v*1000}", "0",
	  "getxattr f user.k => '{v*1000}'" },
	{ "xattr/value-4096", "put f", "setxattr f user.k {v*4096}", "0",
	  "getxattr f user.k => '{v*4096}'" },
	{ "xattr/value-65536", "put f", "setxattr f user.k {v*65536}", "0",
	  "getxattr f user.k => '{v*65536}'; getxattr f user.k 0 => 65536" },
	{ "xattr/value-65537", "put f", "setxattr f user.k {v*65537}", "E2BIG",
	  "listxattr f => ''" },
	{ "xattr/value-large-to-small", "put f; setxattr f user.k {v*60000}", "setxattr f user.k w",
	  "0", "getxattr f user.k => 'w'" },
	{ "xattr/value-small-to-large", "put f; setxattr f user.k w", "setxattr f user.k {v*60000}",
	  "0", "getxattr f user.k => '{v*60000}'" },
	{ "xattr/three-large-ones",
	  "put f; setxattr f user.a {a*50000}; setxattr f user.b {b*50000}",
	  "setxattr f user.c {c*50000}", "0",
	  "getxattr f user.b => '{b*50000}'; listxattr f => 'user.a,user.b,user.c'" },
	{ "xattr/100-of-them", "put f; repeat 100 setxattr f user.k{i} v{i}", "getxattr f user.k57",
	  "'v57'", "listxattr f 0 => 890" },
	{ "xattr/100-removed-again",
	  "put f; repeat 100 setxattr f user.k{i} v{i}; repeat 99 removexattr f user.k{i}",
	  "listxattr f", "'user.k99'" },
	{ "xattr/on-dir", "mkdir d", "setxattr d user.k v", "0", "getxattr d user.k => 'v'" },
	{ "xattr/user-on-fifo", "mkfifo p", "setxattr p user.k v", "EPERM", NULL,
	  ON(LIBRARY, NULL, LIBRARY_NAMESPACES) },
	{ "xattr/user-on-socket", "mknod s sock", "setxattr s user.k v", "EPERM", NULL,
	  ON(LIBRARY, NULL, LIBRARY_NAMESPACES) },
	{ "xattr/user-on-device", "mknod c chr 600 1 3", "setxattr c user.k v", "EPERM", NULL,
	  ON(LIBRARY, NULL, LIBRARY_NAMESPACES) },
	{ "xattr/user-on-link", "symlink x s", "lsetxattr s user.k v", "EPERM", NULL,
	  ON(LIBRARY, NULL, LIBRARY_NAMESPACES) },
	{ "xattr/get-user-on-link", "symlink x s", "lgetxattr s user.k", "ENODATA" },
	{ "xattr/get-user-on-fifo", "mkfifo p", "getxattr p user.k", "ENODATA" },
	{ "xattr/trusted-on-link", "symlink x s", "lsetxattr s trusted.k v", "0",
	  "lgetxattr s trusted.k => 'v'; llistxattr s => 'trusted.k'" },
	{ "xattr/trusted-on-fifo", "mkfifo p", "setxattr p trusted.k v", "0",
	  "getxattr p trusted.k => 'v'" },
	{ "xattr/through-link", "put f; symlink f s", "setxattr s user.k v", "0",
	  "getxattr f user.k => 'v'; llistxattr s => ''" },
	{ "xattr/by-descriptor", "put f; open 0 f rd", "fsetxattr 0 user.k v", "0",
	  "fgetxattr 0 user.k => 'v'; flistxattr 0 => 'user.k'" },
	{ "xattr/by-dir-descriptor", "mkdir d; open 0 d rd|directory", "fsetxattr 0 user.k v", "0",
	  "getxattr d user.k => 'v'" },
	{ "xattr/of-unlinked", "put f; open 0 f rd; unlink f; fsetxattr 0 user.k v",
	  "fgetxattr 0 user.k", "'v'" },
	{ "xattr/two-names", "put f; link f g; setxattr f user.k v", "getxattr g user.k", "'v'" },
	{ "xattr/ctime", "put f; note F f; tick", "setxattr f user.k v", "0",
	  "is f ctime>F mtime=F atime=F" },
	{ "xattr/remove-ctime", "put f; setxattr f user.k v; note F f; tick",
	  "removexattr f user.k", "0", "is f ctime>F mtime=F" },
	{ "xattr/get-changes-no-times",
	  "put f; setxattr f user.k v; note F f; tick; getxattr f user.k", "is f ctime=F atime=F",
	  "0" },
	{ "xattr/failed-keeps-ctime", "put f; note F f; tick", "setxattr f user.k v replace",
	  "ENODATA", "is f ctime=F" },
	{ "xattr/survive-rename", "put f; setxattr f user.k v; rename f g", "getxattr g user.k",
	  "'v'" },
	{ "xattr/survive-truncate", "put f abc; setxattr f user.k v; truncate f 0",
	  "getxattr f user.k", "'v'" },
	{ "xattr/survive-chmod-and-chown", "put f; setxattr f user.k v; chmod f 600; chown f 1 2",
	  "getxattr f user.k", "'v'" },
	{ "xattr/not-of-the-replaced", "put f; setxattr f user.k v; put g; rename g f",
	  "getxattr f user.k", "ENODATA" },
	{ "xattr/not-copied",
	  "put f abc; setxattr f user.k v; put g; open 0 f rd; open 1 g wr; copy 0 0 1 0 3",
	  "listxattr g", "''" },

	/* who may */
	{ "xattr/set-by-writer", "put f; chmod f 666", "a: setxattr f user.k v", "0" },
	{ "xattr/set-by-reader", "put f; chmod f 644", "a: setxattr f user.k v", "EACCES" },
	{ "xattr/get-by-reader", "put f; setxattr f user.k v", "a: getxattr f user.k", "'v'" },
	{ "xattr/get-unreadable", "put f; setxattr f user.k v; chmod f 622", "a: getxattr f user.k",
	  "EACCES" },
	{ "xattr/list-unreadable", "put f; setxattr f user.k v; chmod f 0", "a: listxattr f",
	  "'user.k'" },
	{ "xattr/remove-by-reader", "put f; setxattr f user.k v", "a: removexattr f user.k",
	  "EACCES" },
	{ "xattr/set-on-sticky-dir-by-another", "mkdir t; chmod t 1777", "a: setxattr t user.k v",
	  "EPERM" },
	{ "xattr/set-on-sticky-dir-by-owner", "mkdir t; chown t 1001 0; chmod t 1777",
	  "a: setxattr t user.k v", "0" },
	{ "xattr/by-descriptor-opened-for-reading", "put f; chmod f 666; a: open 0 f rd",
	  "a: fsetxattr 0 user.k v", "0" },
	{ "xattr/by-descriptor-after-chmod", "put f; chmod f 666; a: open 0 f rw; chmod f 644",
	  "a: fsetxattr 0 user.k v", "EACCES" },

	/* trusted: root's */
	{ "xattr/trusted", "put f", "setxattr f trusted.k v", "0",
	  "getxattr f trusted.k => 'v'; listxattr f => 'trusted.k'" },
	{ "xattr/trusted-by-user", "a: put f", "a: setxattr f trusted.k v", "EPERM" },
	{ "xattr/trusted-get-by-user", "a: put f; setxattr f trusted.k v",
	  "a: getxattr f trusted.k", "ENODATA" },
	{ "xattr/trusted-remove-by-user", "a: put f; setxattr f trusted.k v",
	  "a: removexattr f trusted.k", "EPERM" },
	{ "xattr/trusted-is-not-listed-to-user",
	  "a: put f; setxattr f trusted.k v; setxattr f user.k v", "a: listxattr f", "'user.k'" },
	{ "xattr/trusted-on-unreadable", "put f x 0", "setxattr f trusted.k v", "0" },

	/* security */
	{ "xattr/capability", "put f", "setxattr f security.capability " CAPABILITY, "0",
	  "getxattr f security.capability => '" CAPABILITY
	  "'; listxattr f => 'security.capability'" },
	{ "xattr/capability-by-owner", "a: put f", "a: setxattr f security.capability " CAPABILITY,
	  "EPERM" },
	{ "xattr/capability-not-one", "put f", "setxattr f security.capability x", "EINVAL" },
	{ "xattr/capability-get-by-user", "put f; setxattr f security.capability " CAPABILITY,
	  "a: getxattr f security.capability", "'" CAPABILITY "'" },
	{ "xattr/capability-removed", "put f; setxattr f security.capability " CAPABILITY,
	  "removexattr f security.capability", "0", "listxattr f => ''" },
	{ "xattr/capability-remove-by-owner",
	  "a: put f; setxattr f security.capability " CAPABILITY,
	  "a: removexattr f security.capability", "EPERM" },
	{ "xattr/capability-survives-chmod",
	  "put f; setxattr f security.capability " CAPABILITY "; chmod f 700",
	  "getxattr f security.capability", "'" CAPABILITY "'" },
	{ "xattr/capability-survives-rename",
	  "put f; setxattr f security.capability " CAPABILITY "; rename f g",
	  "getxattr g security.capability", "'" CAPABILITY "'" },
	{ "xattr/capability-survives-utimens",
	  "put f; setxattr f security.capability " CAPABILITY "; utimens f 1 2",
	  "getxattr f security.capability", "'" CAPABILITY "'" },
	{ "xattr/security-other", "put f", "setxattr f security.k v", "0",
	  "getxattr f security.k => 'v'" },
	{ "xattr/security-other-by-owner", "a: put f", "a: setxattr f security.k v", "EPERM" },
	{ "xattr/security-get-by-user", "put f; setxattr f security.k v",
	  "a: getxattr f security.k", "'v'" },
	{ "xattr/security-survives-write", "put f; setxattr f security.k v; open 0 f wr; write 0 x",
	  "getxattr f security.k", "'v'" },
	{ "xattr/all-namespaces-listed",
	  "put f; setxattr f user.k v; setxattr f trusted.k v; setxattr f security.k v",
	  "listxattr f", "'security.k,trusted.k,user.k'" },
};

/* --- each namespace on each type, as root: set, list, get, remove --- */

static const struct {
	const char *name;
	bool only_files; /* regular files and directories */
} spaces[] = {
	{ "user", true },
	{ "trusted", false },
	{ "security", false },
};

static bool next_row(size_t n, struct row *ret)
{
	enum node node = NODE_REG + (enum node)(n % (NODES - 1));
	size_t space = n / (NODES - 1) % COUNT(spaces);
	size_t what = n / (NODES - 1) / COUNT(spaces);
	bool may;

	if (what > 1)
		return false;
	may = !spaces[space].only_files || node == NODE_REG || NODE_IS_DIR(node);
	*ret = (struct row){
		.name = text_of("xattr/%s-on-%s-%s", spaces[space].name, node_names[node],
				what ? "remove" : "set"),
		.setup = script_for(node_scripts[node], "n"),
	};
	if (what == 0) {
		ret->call = text_of("lsetxattr n %s.key value", spaces[space].name);
		ret->want = may ? "0" : "EPERM";
		ret->after =
			may ? text_of("lgetxattr n %s.key => 'value'; llistxattr n => '%s.key'",
				      spaces[space].name, spaces[space].name)
			    : "llistxattr n => ''";
	} else {
		ret->call = text_of("lremovexattr n %s.key", spaces[space].name);
		ret->want = may ? "ENODATA" : "EPERM";
	}
	if (!may)
		ret->differences[0] = (struct difference){ LIBRARY, NULL, LIBRARY_NAMESPACES };
	return true;
}

const struct table xattr_table = { "xattr", rows, COUNT(rows), next_row, false };
