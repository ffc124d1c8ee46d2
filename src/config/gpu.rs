//! The settings of GPU timing.

/// How GPU work is timed (`NCCL_OTF2_GPU`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// Not at all: no function of CUDA is called.
    Off,
    /// By CUPTI unless another tool may use it, else by CUDA events.
    #[default]
    Auto,
    /// By CUPTI.
    Cupti,
    /// By CUDA events.
    Events,
}

impl BackendChoice {
    /// The values of the variable.
    pub(super) const CHOICES: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("auto", Self::Auto), ("cupti", Self::Cupti), ("events", Self::Events)];
}

/// Which kernels are recorded (`NCCL_OTF2_CUPTI_KERNELS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CuptiKernels {
    /// NCCL's.
    #[default]
    Nccl,
    /// All of the process.
    All,
}

impl CuptiKernels {
    /// The values of the variable.
    pub(super) const CHOICES: &'static [(&'static str, Self)] = &[("nccl", Self::Nccl), ("all", Self::All)];
}

/// All settings of GPU timing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuSettings {
    /// How GPU work is timed.
    pub backend: BackendChoice,
    /// Which kernels CUPTI records.
    pub kernels: CuptiKernels,
    /// The path of CUPTI's library (`NCCL_OTF2_CUPTI_LIB`).
    pub cupti_library: Option<String>,
}
