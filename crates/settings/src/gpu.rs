//! The settings of GPU timing.

use nccl_events::gpu::Backend;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// Calls no CUDA function.
    Off,
    /// CUPTI unless another tool may use it, else CUDA events.
    #[default]
    Auto,
    Cupti,
    Events,
}

impl BackendChoice {
    pub(super) const CHOICES: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("auto", Self::Auto), ("cupti", Self::Cupti), ("events", Self::Events)];
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CuptiKernels {
    #[default]
    Nccl,
    All,
}

impl CuptiKernels {
    pub(super) const CHOICES: &'static [(&'static str, Self)] = &[("nccl", Self::Nccl), ("all", Self::All)];
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuSettings {
    pub backend: BackendChoice,
    pub kernels: CuptiKernels,
    pub cupti_library: Option<String>,
}

/// The advice for a user who asks for all kernels, which only CUPTI records, and gets this backend.
pub fn without_all_kernels(kernels: CuptiKernels, backend: Backend) -> Option<&'static str> {
    let has_no_effect = kernels == CuptiKernels::All && backend == Backend::Events;
    has_no_effect.then_some(
        "NCCL_OTF2_CUPTI_KERNELS=all has no effect, because CUDA events time NCCL's launches only: set NCCL_OTF2_GPU=cupti, too, and use no other profiler of GPUs in this job, PyTorch's among them, which may get nothing then",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kernels_need_cupti() {
        use CuptiKernels::{All, Nccl};
        let line = without_all_kernels(All, Backend::Events).expect("a line");
        assert!(line.contains("NCCL_OTF2_CUPTI_KERNELS=all") && line.contains("set NCCL_OTF2_GPU=cupti"), "{line}");
        assert!(line.len() <= nccl_events::Name::MAX_BYTES, "it fits into the journal");
        for (kernels, backend) in [(All, Backend::Cupti), (Nccl, Backend::Events), (All, Backend::Off)] {
            assert_eq!(without_all_kernels(kernels, backend), None);
        }
    }
}
