//! A test double of libcupti: see `README.md` for what it does and how a test drives it.
