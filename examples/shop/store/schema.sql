-- The shop's tables, for SQLite and PostgreSQL alike. Times are milliseconds since 1970.

CREATE TABLE IF NOT EXISTS products (
  id    TEXT PRIMARY KEY,
  name  TEXT NOT NULL,
  total BIGINT NOT NULL,
  taken BIGINT NOT NULL DEFAULT 0,
  CHECK (taken >= 0 AND taken <= total)
);

-- What buyers asked for and were told 202 about.
CREATE TABLE IF NOT EXISTS requests (
  event_id        TEXT PRIMARY KEY,
  product_id      TEXT NOT NULL REFERENCES products (id),
  visitor         TEXT NOT NULL,
  quantity        BIGINT NOT NULL CHECK (quantity > 0),
  idempotency_key TEXT NOT NULL,
  requested_at    BIGINT NOT NULL,
  status          TEXT NOT NULL CHECK (status IN ('accepted', 'confirmed', 'sold_out', 'failed')),
  room            TEXT NOT NULL,
  pass            TEXT NOT NULL -- a credential: emptied as soon as it is not needed
);

-- One visitor has one order of a product; one that came to nothing does not count.
CREATE UNIQUE INDEX IF NOT EXISTS requests_live ON requests (product_id, visitor)
  WHERE status IN ('accepted', 'confirmed');

-- What has to be done outside of the database, written with what it follows from. A row is done
-- when what it asks for has happened, not when it was asked for.
CREATE TABLE IF NOT EXISTS outbox (
  id       /*SERIAL*/ PRIMARY KEY,
  event_id TEXT NOT NULL REFERENCES requests (event_id),
  kind     TEXT NOT NULL CHECK (kind IN ('order', 'release', 'give_back')),
  due_at   BIGINT NOT NULL,
  attempts BIGINT NOT NULL DEFAULT 0,
  done_at  BIGINT,
  UNIQUE (event_id, kind)
);
CREATE INDEX IF NOT EXISTS outbox_open ON outbox (due_at) WHERE done_at IS NULL;

CREATE TABLE IF NOT EXISTS orders (
  event_id     TEXT PRIMARY KEY REFERENCES requests (event_id),
  product_id   TEXT NOT NULL REFERENCES products (id),
  visitor      TEXT NOT NULL,
  quantity     BIGINT NOT NULL,
  confirmed_at BIGINT NOT NULL
);

-- Messages that nobody can make an order of, by where they were read.
CREATE TABLE IF NOT EXISTS dead_letters (
  source  TEXT PRIMARY KEY,
  payload TEXT NOT NULL,
  reason  TEXT NOT NULL,
  seen_at BIGINT NOT NULL
);
