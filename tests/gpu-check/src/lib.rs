//! Which GPUs a machine has, and where NVIDIA's libraries are: on the library path or where Python packages put them.

use std::path::{Path, PathBuf};
use std::process::Command;

pub const NCCL: [&str; 1] = ["libnccl.so.2"];
/// The newest first.
pub const CUDA_RUNTIME: [&str; 3] = ["libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"];
/// Where Python packages have their libraries, for CUDA 13 and for older releases.
const IN_PYTHON: [&str; 4] = ["nvidia/nccl/lib", "nvidia/cu13/lib", "nvidia/cuda_runtime/lib", "nvidia/cuda_cupti/lib"];
const OF_SYSTEM: [&str; 5] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"];

/// Number of GPUs with a device file: nvidia0, not nvidiactl.
#[must_use]
pub fn devices() -> usize {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let entries = Path::new("/dev").read_dir().into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.strip_prefix("nvidia").is_some_and(is_number)).count()
}

/// Where libraries may be: the library path, the packages of a Python, CUDA's own folders, the system's.
#[must_use]
pub fn folders(python: Option<&Path>) -> Vec<PathBuf> {
    let given = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&given).collect();
    // By its own word: it may be a script that starts another.
    let packages = python.and_then(|python| ask(python, "import sys; print('\\n'.join(sys.path))")).unwrap_or_default();
    folders.extend(packages.lines().flat_map(|site| IN_PYTHON.iter().map(move |inside| Path::new(site).join(inside))));
    let homes = ["NCCL_HOME", "CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
    for home in homes.map(PathBuf::from).chain(["/usr/local/cuda".into()]) {
        folders.extend(["lib", "lib64", "extras/CUPTI/lib64"].map(|inside| home.join(inside)));
    }
    folders.extend(OF_SYSTEM.map(PathBuf::from));
    folders
}

/// The first name that any folder has; a name before another counts more than a folder before another.
#[must_use]
pub fn first(folders: &[PathBuf], names: &[&str]) -> Option<PathBuf> {
    let mut files = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.find(|file| file.is_file())
}

/// What a script prints, within 20 s.
#[must_use]
pub fn ask(python: &Path, script: &str) -> Option<String> {
    let output = Command::new("timeout").arg("20").arg(python).args(["-c", script]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
