//! Sends and receives: which belong together, and who waits for whom, in collectives as well.
//!
//! ```text
//!  pairing    the n-th send of a rank to another is the n-th receive there
//!   └► waits  until when each end waits for the other, and where that is not known
//!       └► ranks  the same by rank in time: kernels wait for the last of their partners
//!           └► blame  who is waited for in the end: of a chain, the one that does not wait itself
//! ```

mod blame;
mod compared;
mod pairing;
mod ranks;
mod waits;

pub(super) use blame::{Awaited, Blame, Waited};
pub(super) use compared::Messages;
pub(super) use ranks::{OfRank, Wait, WaitsIn};
