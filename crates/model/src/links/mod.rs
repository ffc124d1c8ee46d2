//! What belongs together: which launch, kernels, channels and transfers an operation has, and when it ran. The writer
//! of archives applies the rules after reading a whole journal, `live` once all threads are read up to the end of an
//! operation. So the rules that both need name events by whatever the caller uses, and only compare times, which may be
//! ticks.

pub mod derived;
pub mod gpu_stamps;
pub mod gpu_work;
pub mod intervals;
pub mod launches;
pub mod operations;
pub mod transfers;
