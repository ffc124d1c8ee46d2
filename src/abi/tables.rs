//! The exported tables. NCCL looks for them with `dlsym`, newest first, and uses the first that it finds.
//!
//! Each table lies in 128 zeroed bytes: forks of NCCL with more members in v7 read NULL, not the neighbour's memory.

use std::ffi::CStr;

use super::callbacks::{finalize, init_v1, init_v4, init_v5, record_event_state, start_event, stop_event};
use super::{Interface, sys};
use nccl_events::Table;

/// The plugin's name in NCCL's log lines.
pub const NAME: &CStr = c"OTF2";

#[repr(C)]
pub struct Padded<T> {
    pub table: T,
    tail: [usize; 10],
}

// SAFETY: immutable: a pointer to a static string, and pointers to functions that any thread may call.
unsafe impl<T> Sync for Padded<T> {}

const _: () = assert!(size_of::<Padded<sys::ncclProfiler_v7_t>>() == 128);

macro_rules! tables {
    ($($version:ident $name:ident: $table:ident, $init:ident, $descriptor:ident, $arguments:ident;)*) => {
        $(
            #[doc = concat!("The table `", stringify!($name), "`.")]
            // SAFETY: the name is NCCL's, for exactly this purpose: no other library of a process defines it globally,
            // and NCCL looks it up through this library's handle.
            #[unsafe(no_mangle)]
            pub static $name: Padded<sys::$table> = Padded {
                table: sys::$table {
                    name: NAME.as_ptr(),
                    init: Some($init::<sys::$descriptor>),
                    startEvent: Some(start_event::<sys::$descriptor>),
                    stopEvent: Some(stop_event),
                    recordEventState: Some(record_event_state::<sys::$descriptor>),
                    finalize: Some(finalize::<sys::$descriptor>),
                },
                tail: [0; 10],
            };

            impl Interface for sys::$descriptor {
                const TABLE: Table = Table::$version;
                type Arguments = sys::$arguments;
            }
        )*

        // Every version is exported.
        const _: () = match Table::NEWEST {
            $(Table::$version => (),)*
        };
    };
}

tables! {
    V1 ncclProfiler_v1: ncclProfiler_v1_t, init_v1, ncclProfilerEventDescr_v1_t, ncclProfilerEventStateArgs_v1_t;
    V2 ncclProfiler_v2: ncclProfiler_v2_t, init_v1, ncclProfilerEventDescr_v2_t, ncclProfilerEventStateArgs_v2_t;
    V3 ncclProfiler_v3: ncclProfiler_v3_t, init_v1, ncclProfilerEventDescr_v3_t, ncclProfilerEventStateArgs_v3_t;
    V4 ncclProfiler_v4: ncclProfiler_v4_t, init_v4, ncclProfilerEventDescr_v4_t, ncclProfilerEventStateArgs_v4_t;
    V5 ncclProfiler_v5: ncclProfiler_v5_t, init_v5, ncclProfilerEventDescr_v5_t, ncclProfilerEventStateArgs_v5_t;
    V6 ncclProfiler_v6: ncclProfiler_v6_t, init_v5, ncclProfilerEventDescr_v6_t, ncclProfilerEventStateArgs_v6_t;
    V7 ncclProfiler_v7: ncclProfiler_v7_t, init_v5, ncclProfilerEventDescr_v7_t, ncclProfilerEventStateArgs_v7_t;
}
