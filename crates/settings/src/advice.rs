//! The cost and risk of recording kernel channels, by NCCL release. The plugin cannot prevent these, so it warns once.

/// The warning for a user who records kernel channels on this release (22809 = 2.28.9; 0 = unknown). `allgatherv_off`:
/// `NCCL_ALLGATHERV_ENABLE` is 0.
pub fn kernel_channels(nccl_version: u32, allgatherv_off: bool) -> String {
    let text = match nccl_version {
        // NVIDIA/nccl #2039, fixed in 2.28.3; 2.26.2 also hangs after graph capture.
        22_600..22_800 => {
            "NCCL 2.26 and 2.27 can fail with \"Proxy append out of bounds\" in all-to-all with more than 64 peers, and 2.26.2 can hang after graph capture"
        }
        // Observed with the real libraries: the device counts work that the host does not count.
        22_900..23_100 if !allgatherv_off => {
            "NCCL 2.29 and 2.30 can hang in ncclCommDestroy after grouped broadcasts, or after a send to oneself and then a broadcast, unless NCCL_ALLGATHERV_ENABLE=0"
        }
        // NVIDIA/nccl #2355; rocm-systems #11860 describes the same teardown order.
        23_100.. => {
            "NCCL 2.31 and later measure phases in the kernel, which slows operations of 128 KiB to 4 MiB by up to 13 %, and can crash when a communicator is destroyed or aborted before its work is done: synchronise the device first"
        }
        _ => "NCCL sends even operations inside a node through its proxy thread then, some 9 µs each",
    };
    // NVIDIA/nccl #2369: the device counts broadcasts that the host does not count.
    match nccl_version {
        23_100.. if !allgatherv_off => format!(
            "{text}; after a broadcast, unless NCCL_ALLGATHERV_ENABLE=0, kernel channels have the times of other operations, and NCCL can crash when the communicator is destroyed"
        ),
        _ => text.to_owned(),
    }
}
