//! The arguments of `recordEventState`, per version.

use nccl_profiler_otf2::abi::sys;

use crate::descriptor::address;
use crate::version::Version;

/// What NCCL says with a state, without versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateArgs {
    /// NULL.
    #[default]
    Null,
    /// A structure of zeros.
    Zero,
    /// Step states: bytes of the last transfer. Versions 1 to 3 get zeros.
    Step {
        /// Bytes.
        bytes: u64,
    },
    /// ProxyOp states of versions 1 to 3. Later versions get the bytes as of a step.
    Operation {
        /// Bytes, cumulative.
        bytes: u64,
        /// Steps done.
        steps: i32,
    },
    /// ProxyCtrl.
    Appended {
        /// Appended proxy operations.
        operations: i32,
    },
    /// KernelChStop and KernelPhaseStop. Versions 1 to 3 get zeros.
    GpuTime {
        /// The GPU's globaltimer in ns.
        gpu_ns: u64,
    },
    /// NetPluginUpdate. Versions 1 to 3 get zeros.
    NetPlugin {
        /// Address of the data.
        data: u64,
    },
}

/// The arguments as a version's structure.
#[derive(Clone, Copy)]
#[repr(C)]
pub union RawStateArgs {
    pub(crate) v1: sys::ncclProfilerEventStateArgs_v1_t,
    pub(crate) v4: sys::ncclProfilerEventStateArgs_v4_t,
    words: [u64; 4],
}

impl RawStateArgs {
    /// The structure for a plugin of this version; `None` for NULL.
    #[must_use]
    pub fn new(version: Version, args: StateArgs) -> Option<Self> {
        let mut raw = Self { words: [0; 4] };
        let old = version.number() <= 3;
        match args {
            StateArgs::Null => return None,
            StateArgs::Zero => {}
            StateArgs::Appended { operations } => raw.v1.proxyCtrl.appendedProxyOps = operations,
            StateArgs::Operation { bytes, steps } if old => {
                raw.v1.proxyOp = sys::ncclProfilerProxyOpArgs_v1_t {
                    transSize: usize::try_from(bytes).unwrap_or(usize::MAX),
                    steps,
                };
            }
            _ if old => {}
            StateArgs::Step { bytes } | StateArgs::Operation { bytes, .. } => {
                raw.v4.proxyStep.transSize = usize::try_from(bytes).unwrap_or(usize::MAX);
            }
            StateArgs::GpuTime { gpu_ns } => raw.v4.kernelCh.pTimer = gpu_ns,
            StateArgs::NetPlugin { data } => raw.v4.netPlugin.data = address(data),
        }
        Some(raw)
    }
}
