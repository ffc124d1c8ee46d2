#![doc = include_str!("../README.md")]
#![warn(missing_docs, clippy::missing_panics_doc)]

pub mod code;
pub mod constants;
pub mod driver;
pub mod functions;
pub mod load;
pub mod mapped;
pub mod record;
mod users;

pub use code::Code;
pub use functions::Functions;
pub use load::{Library, LoadError, Search, load};
pub use users::other_user;
