/* open.c - what requests that open and close handles share. */
#include "serve/serve_internal.h"

int stet_serve_get_open_(struct stet_serve_call *c, int changing, struct stet_serve_open *ret)
{
	int rc;

	ret->at = stet_serve_at_(c);
	ret->flags = (int)stet_wire_get_u32(&c->in);
	ret->mode = stet_wire_get_u32(&c->in);
	rc = stet_serve_ready_(c);
	if (!rc && c->session->read_only && (ret->flags & changing))
		rc = STET_FAIL(-EROFS, "the volume was opened to be read only");
	return rc ? rc : stet_serve_admit_(c->session, false);
}

int stet_serve_opened_(struct stet_serve_call *c, const struct stet_serve_handle *h, int rc)
{
	uint64_t number;

	if (!rc) {
		rc = stet_serve_handle_add_(c->session, h, &number);
		if (rc)
			stet_serve_handle_end_(h);
	}
	if (rc)
		stet_serve_dismiss_(c->session, h->is_view);
	else
		stet_wire_put_u64(&c->out, number);
	return rc;
}

int64_t stet_serve_drop_(struct stet_serve_call *c, enum stet_serve_kind kind)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, kind);
	int rc = stet_serve_ready_(c);

	if (!rc)
		stet_serve_handle_drop_(c->session, h);
	return rc;
}
