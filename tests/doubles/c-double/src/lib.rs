//! What the doubles of C libraries share.

pub mod args;
mod counts;
mod functions;
mod hidden;
mod player;
mod process;
mod variables;
mod work;

pub use counts::{count, counted, report};
pub use hidden::hide;
pub use player::Player;
pub use process::{end_with_parent, fatal, log_line, realtime_ns, this_thread};
pub use variables::Variables;
pub use work::Work;
