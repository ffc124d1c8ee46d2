//! The bytes of a journal: `docs/FORMATS.md`.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod gpu;
pub mod layout;
pub(crate) mod range;
pub mod record;
pub(crate) mod words;
