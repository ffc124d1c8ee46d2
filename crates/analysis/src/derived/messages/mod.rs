//! Sends and receives: which belong together, and which rank waits for which, in collectives as well.
//!
//! ```text
//!  pairing    the n-th send of a rank to another is the n-th receive there
//!   └► waits  until when each end waits for the other, and where that is unknown
//!       └► ranks  the same per rank over time: a kernel waits for the last of its partners
//!           └► blame  the rank at the end of a chain of waits, which does not wait itself
//! ```

mod blame;
mod compared;
mod pairing;
mod ranks;
mod waits;

pub(super) use blame::{Awaited, Blame, Waited};
pub(super) use compared::Messages;
pub(super) use pairing::Pairing;
pub(super) use ranks::{OfRank, Wait, Waits, WaitsIn};
pub(super) use waits::Until;
