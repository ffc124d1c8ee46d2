//! What the user wants to be known of GPUs.

/// How GPU work is to be timed (`NCCL_OTF2_GPU`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Nothing of CUDA's is called.
    Off,
    /// By CUPTI unless another tool may use it, else by events.
    #[default]
    Auto,
    /// By CUPTI.
    Cupti,
    /// By CUDA events.
    Events,
}

impl Wish {
    /// The values of the variable.
    pub const CHOICES: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("auto", Self::Auto),
        ("cupti", Self::Cupti),
        ("events", Self::Events),
    ];
}

/// Which kernels are written down (`NCCL_OTF2_CUPTI_KERNELS`).
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
    pub const CHOICES: &'static [(&'static str, Self)] =
        &[("nccl", Self::Nccl), ("all", Self::All)];
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuSettings {
    /// How GPU work is to be timed.
    pub wish: Wish,
    /// Which kernels are written down, by CUPTI.
    pub kernels: CuptiKernels,
    /// The file of CUPTI's library (`NCCL_OTF2_CUPTI_LIB`).
    pub cupti_library: Option<String>,
}
