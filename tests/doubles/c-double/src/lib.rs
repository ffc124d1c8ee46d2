//! What the doubles of C libraries share.

pub mod args;
mod counts;
mod functions;
mod hidden;
pub mod nvtx;
mod player;
mod process;
mod variables;
mod work;

pub use counts::{all_counted, count, counted, report};
pub use functions::ProfilerTable;
pub use hidden::hide;
pub use player::Player;
pub use process::{end_with_parent, fatal, log_line, realtime_ns, this_thread};
pub use variables::Variables;
pub use work::Work;

/// What NCCL needs on the stand-in for a GPU: loopback sockets, nothing that needs hardware, no algorithm that is not
/// emulated.
pub const NCCL_ON_FAKE_GPU: &[(&str, &str)] = &[
    ("NCCL_SOCKET_IFNAME", "lo"),
    ("NCCL_NET", "Socket"),
    ("NCCL_IB_DISABLE", "1"),
    ("NCCL_P2P_DISABLE", "1"),
    ("NCCL_SHM_DISABLE", "1"),
    ("NCCL_RAS_ENABLE", "0"),
    ("NCCL_PAT_ENABLE", "0"),
    ("NCCL_MAX_NCHANNELS", "2"),
    ("NCCL_DEBUG", "WARN"),
];
