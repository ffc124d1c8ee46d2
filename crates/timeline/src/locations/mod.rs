//! What each kind of location contains. A new kind has a function in a file of this folder, a line in
//! [`threads::build_locations`], its [`crate::builder::LocationKey`], and what its region instances say in
//! [`crate::attributes`].

mod communicators;
pub mod network;
pub mod switches;
pub mod threads;
