/* volume.c - requests about the volume as a whole. */
#include "serve/serve_internal.h"

int64_t stet_serve_do_sync_(struct stet_serve_call *c)
{
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_sync(c->vol);
}

int64_t stet_serve_do_statfs_(struct stet_serve_call *c)
{
	struct stet_statfs st;
	int rc = stet_serve_ready_(c);

	if (!rc)
		rc = stet_statfs(c->vol, &st);
	if (rc)
		return rc;
	st.read_only = st.read_only || c->session->read_only;
	stet_wire_put_statfs(&c->out, &st);
	return 0;
}

static int put_counter(void *arg, const char *name, uint64_t value)
{
	struct stet_serve_call *c = arg;

	stet_wire_put_text(&c->out, name);
	stet_wire_put_u64(&c->out, value);
	return 0;
}

int64_t stet_serve_do_stats_(struct stet_serve_call *c)
{
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_stats(c->vol, put_counter, c);
}

int64_t stet_serve_do_clean_(struct stet_serve_call *c)
{
	uint32_t segments = stet_wire_get_u32(&c->in);
	int rc = stet_serve_ready_(c);

	if (!rc && !c->session->is_owner)
		rc = STET_FAIL(-EPERM, "the volume is another user's");
	return rc ? rc : stet_clean(c->vol, segments);
}
