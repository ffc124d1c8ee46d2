//! What a tool finds that looks for the driver in a process under the stand-in.

mod captures;
mod events;
mod library;
mod rig;
