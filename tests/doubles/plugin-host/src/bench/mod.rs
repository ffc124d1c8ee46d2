//! Times the callbacks of a profiler plugin.
//!
//! [`mix`] makes the sequence of callbacks of one operation of a job, [`run`] calls it from one or more threads,
//! [`timer`] reads the time and knows its own cost, [`memory`] reads what the process and the folder hold, and
//! [`report`] says the result.
//!
//! The loops neither allocate nor lock: descriptors are made before, samples go into arrays that were made and
//! touched before.

pub mod memory;
pub mod mix;
pub mod report;
pub mod run;
pub mod timer;
