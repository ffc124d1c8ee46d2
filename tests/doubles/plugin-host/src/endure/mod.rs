//! A rank that works until somebody ends it, and leaves behind which callbacks had returned by then.

mod ledger;
mod rank;

pub use ledger::{End, KINDS, LEDGER_WORDS, THREAD_WORDS};
pub use rank::{Options, run};
