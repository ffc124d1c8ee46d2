//! The exported tables: what NCCL's `dlsym` looks for, from v7 downwards, and uses the first of.
//!
//! Each lies in a block of zeroes of 128 bytes, because forks of NCCL have a v7 with more members: they read
//! NULL there, not the neighbour's memory.

use std::ffi::CStr;

use super::callbacks::{finalize, init_v1, init_v4, init_v5, record_event_state, start_event, stop_event};
use super::sys;

/// The plugin's name in NCCL's log lines.
pub const NAME: &CStr = c"OTF2";

/// A table and zeroes after it.
#[repr(C)]
pub struct Padded<T> {
    /// The table itself.
    pub table: T,
    tail: [usize; 10],
}

// SAFETY: immutable: a pointer to a static string, and pointers to functions that any thread may call.
unsafe impl<T> Sync for Padded<T> {}

const _: () = assert!(size_of::<Padded<sys::ncclProfiler_v7_t>>() == 128);

macro_rules! table {
    ($version:literal $name:ident: $table:ident, $init:expr, $descriptor:ident, $arguments:ident) => {
        #[doc = concat!("The table `", stringify!($name), "`.")]
        // SAFETY: the name is NCCL's for exactly this: no other library of a process defines it globally, and
        // NCCL asks for it by this library's handle.
        #[unsafe(no_mangle)]
        pub static $name: Padded<sys::$table> = Padded {
            table: sys::$table {
                name: NAME.as_ptr(),
                init: Some($init),
                startEvent: Some(start_event::<sys::$descriptor, $version>),
                stopEvent: Some(stop_event),
                recordEventState: Some(record_event_state::<sys::$arguments, $version>),
                finalize: Some(finalize::<$version>),
            },
            tail: [0; 10],
        };
    };
}

table!(1 ncclProfiler_v1: ncclProfiler_v1_t, init_v1::<1>, ncclProfilerEventDescr_v1_t, ncclProfilerEventStateArgs_v1_t);
table!(2 ncclProfiler_v2: ncclProfiler_v2_t, init_v1::<2>, ncclProfilerEventDescr_v2_t, ncclProfilerEventStateArgs_v2_t);
table!(3 ncclProfiler_v3: ncclProfiler_v3_t, init_v1::<3>, ncclProfilerEventDescr_v3_t, ncclProfilerEventStateArgs_v3_t);
table!(4 ncclProfiler_v4: ncclProfiler_v4_t, init_v4, ncclProfilerEventDescr_v4_t, ncclProfilerEventStateArgs_v4_t);
table!(5 ncclProfiler_v5: ncclProfiler_v5_t, init_v5::<5>, ncclProfilerEventDescr_v5_t, ncclProfilerEventStateArgs_v5_t);
table!(6 ncclProfiler_v6: ncclProfiler_v6_t, init_v5::<6>, ncclProfilerEventDescr_v6_t, ncclProfilerEventStateArgs_v6_t);
table!(7 ncclProfiler_v7: ncclProfiler_v7_t, init_v5::<7>, ncclProfilerEventDescr_v7_t, ncclProfilerEventStateArgs_v7_t);
