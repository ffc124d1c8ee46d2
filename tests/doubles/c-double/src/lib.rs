//! What the doubles of C libraries share.

pub mod args;
mod counts;
mod hidden;
mod process;
mod variables;
mod work;

pub use counts::{count, counted, report};
pub use hidden::hide;
pub use process::{fatal, log_line, realtime_ns, this_thread};
pub use variables::Variables;
pub use work::Work;
