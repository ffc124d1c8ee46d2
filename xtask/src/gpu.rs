//! Whether this machine has GPUs that NCCL could use, and where its CUDA libraries are.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::capture;

/// Number of NVIDIA GPUs with a device file here; 0 without the driver.
pub(crate) fn devices() -> usize {
    if !Path::new("/dev/nvidiactl").exists() {
        return 0;
    }
    let Ok(entries) = std::fs::read_dir("/dev") else {
        return 0;
    };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).filter(|name| is_device(name)).count()
}

pub(crate) fn nccl() -> Option<PathBuf> {
    library(&["libnccl.so.2"], "nccl/lib")
}

/// The CUDA runtime as installed on this machine, if it is; the newest first.
pub(crate) fn cuda_runtime() -> Option<PathBuf> {
    library(&["libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"], "cuda_runtime/lib")
        .or_else(|| library(&["libcudart.so.13"], "cu13/lib"))
}

fn is_device(name: &str) -> bool {
    name.strip_prefix("nvidia").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// Looks where a job would find it: the library path, the CUDA toolkit, Python packages, the dynamic linker's cache.
fn library(names: &[&str], in_python: &str) -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("LD_LIBRARY_PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    for variable in ["NCCL_HOME", "CUDA_HOME", "CUDA_PATH"] {
        if let Some(home) = std::env::var_os(variable).map(PathBuf::from) {
            folders.extend([home.join("lib"), home.join("lib64")]);
        }
    }
    folders.push("/usr/local/cuda/lib64".into());
    folders.extend(python_packages().into_iter().map(|site| site.join("nvidia").join(in_python)));
    folders
        .iter()
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|file| file.is_file())
        .or_else(|| linker_cache(names))
}

fn python_packages() -> Vec<PathBuf> {
    let code = "import site; print('\\n'.join(site.getsitepackages() + [site.getusersitepackages()]))";
    let output = capture(Command::new("python3").args(["-c", code]));
    output.map_or_else(|_| Vec::new(), |output| output.out.lines().map(PathBuf::from).collect())
}

fn linker_cache(names: &[&str]) -> Option<PathBuf> {
    let listing = capture(Command::new("/sbin/ldconfig").arg("-p")).ok()?.out;
    names.iter().find_map(|name| {
        let line = listing.lines().find(|line| line.split_whitespace().next() == Some(name))?;
        Some(PathBuf::from(line.rsplit_once("=> ")?.1.trim()))
    })
}
