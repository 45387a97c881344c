/* open.c - what requests that open and close handles share. */
#include "serve/serve_internal.h"

/* The request does, by its flags. */
static int changes(struct stet_serve_call *c)
{
	if (c->session->read_only)
		return STET_FAIL(-EROFS, "the volume was opened to be read only");
	if (c->part && c->part->own->read_only)
		return STET_FAIL(-EROFS, "the transaction is read-only");
	return 0;
}

int stet_serve_get_open_(struct stet_serve_call *c, int changing, struct stet_serve_open *ret)
{
	int rc;

	ret->at = stet_serve_at_(c);
	ret->flags = (int)stet_wire_get_u32(&c->in);
	ret->mode = stet_wire_get_u32(&c->in);
	rc = stet_serve_ready_(c);
	if (!rc && (ret->flags & changing))
		rc = changes(c);
	return rc ? rc : stet_serve_admit_(c->session, false);
}

int stet_serve_opened_(struct stet_serve_call *c, struct stet_serve_handle *h, int rc)
{
	uint64_t number;

	if (h->kind != STET_SERVE_TXN && h->kind != STET_SERVE_TABLE)
		h->part = c->part;
	if (!rc) {
		rc = stet_serve_handle_add_(c->session, h, &number);
		if (rc)
			stet_serve_handle_end_(c->session, h);
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
