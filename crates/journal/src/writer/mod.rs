//! The recording side of the journal: one [`Registry`] a process, which hands out one [`Cursor`] a slot and
//! prepares what cursors will need next.

mod copy;
mod cursor;
mod lost;
mod mapping;
mod names;
mod registry;
mod repeat_filter;
mod retention;
mod shared_cursor;
mod slot;
mod space;

pub use cursor::Cursor;
pub use lost::Lost;
pub use registry::Registry;
pub use shared_cursor::SharedCursor;
pub use space::{RegistryOptions, Stop, Window};
