//! The command line.

use std::path::PathBuf;

/// Finds out on a machine with a GPU what only a GPU can show, prints a table and writes JSON.
///
/// NCCL, the CUDA runtime and CUPTI are looked for on LD_LIBRARY_PATH, among the Python packages of the python3 on
/// PATH, in CUDA_HOME and /usr/local/cuda, and in the system's folders. A check that does not end is killed at its own
/// time limit. Exit status: 0 no check failed, 1 one did, 2 usage, or something is missing here.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "gpu-check")]
pub(crate) struct Options {
    /// libnccl.so.2
    #[arg(long, value_name = "PATH", required_if_eq("fake_gpu", "true"))]
    pub(crate) nccl: Option<PathBuf>,
    /// libcudart.so.13, .12
    #[arg(long, value_name = "PATH")]
    pub(crate) cudart: Option<PathBuf>,
    /// libcupti.so.13, .12
    #[arg(long, value_name = "PATH")]
    pub(crate) cupti: Option<PathBuf>,
    /// A python3 that has PyTorch [default: python3 on PATH, where it has it]
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// Only these checks, by name or number
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// End within this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 570)]
    pub(crate) limit: u64,
    /// Where the results go
    #[arg(long, value_name = "FILE", default_value = "gpu-check.json")]
    pub(crate) json: PathBuf,
    /// Without a GPU: run what can be run on the doubles of this folder, to test the checks themselves; needs --nccl
    #[arg(long)]
    pub(crate) fake_gpu: bool,
    /// Print the checks and what each settles, and run nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// One question to CUPTI and the driver, answered by this process
    #[arg(long, hide = true)]
    pub(crate) probe: Option<String>,
    /// The driver's file, where it is not the system's `libcuda.so.1`
    #[arg(long, hide = true)]
    pub(crate) driver: Option<PathBuf>,
    /// Driver and CUPTI are doubles
    #[arg(long, hide = true)]
    pub(crate) double: bool,
}
