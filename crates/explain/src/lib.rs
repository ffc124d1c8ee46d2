//! Explains an analysis: why a late rank is late, and the critical path of the job.
//!
//! ```text
//!  Trace, Analysis ─► hosts   when chosen operations were called and launched: read only for these
//!                      ├► why    the stage that delayed a late rank: call, launch, GPU, operation before
//!                      └► path   from the end of the job back through what each operation waited for
//! ```

#![forbid(unsafe_code)]

mod hosts;
mod path;
mod why;

pub use path::critical_path;
pub use why::add_reasons;
