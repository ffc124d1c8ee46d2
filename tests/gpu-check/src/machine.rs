//! What this machine has: GPUs, and NVIDIA's libraries on the library path or where Python packages put them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bundle::Bundle;
use crate::options::Options;
use crate::process;

const NCCL: [&str; 1] = ["libnccl.so.2"];
const RUNTIME: [&str; 3] = ["libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"];
const CUPTI: [&str; 3] = ["libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"];
/// Below a folder of Python packages: where those of CUDA 13, and those before, have their libraries.
const IN_PYTHON: [&str; 4] = ["nvidia/nccl/lib", "nvidia/cu13/lib", "nvidia/cuda_runtime/lib", "nvidia/cuda_cupti/lib"];
const OF_SYSTEM: [&str; 5] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"];

#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) gpus: usize,
    pub(crate) nccl: Option<PathBuf>,
    pub(crate) cudart: Option<PathBuf>,
    pub(crate) cupti: Option<PathBuf>,
    pub(crate) driver: Option<PathBuf>,
    pub(crate) torch: Option<PathBuf>,
    pub(crate) nsys: Option<PathBuf>,
    /// CPUs that this process may run on.
    pub(crate) cpus: usize,
}

impl Machine {
    pub(crate) fn look(options: &Options, bundle: &Bundle, work: &Path) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        if options.fake_gpu {
            return Self {
                nccl: options.nccl.clone(),
                cupti: Some(bundle.fake_cupti.clone()),
                driver: Some(bundle.fake_driver.clone()),
                cpus,
                ..Self::default()
            };
        }
        let python = options.python.clone().or_else(|| on_path("python3"));
        let packages = python.iter().flat_map(|python| {
            // By its own word: it may be a script that starts another.
            let script = "import sys; print('\\n'.join(sys.path))";
            let said = ask(python, script, work).unwrap_or_default();
            said.lines().map(PathBuf::from).collect::<Vec<_>>()
        });
        let folders = folders(packages);
        let find = |given: &Option<PathBuf>, names: &[&str]| given.clone().or_else(|| first(&folders, names));
        let cudart = find(&options.cudart, &RUNTIME);
        let torch = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)";
        Self {
            gpus: devices(),
            nccl: find(&options.nccl, &NCCL),
            cupti: find(&options.cupti, &of_release(cudart.as_deref())),
            cudart,
            driver: None,
            torch: python.filter(|python| ask(python, torch, work).is_some()),
            nsys: on_path("nsys"),
            cpus,
        }
    }

    pub(crate) fn facts(&self) -> Value {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.canonicalize().ok());
        let line = |file: &str| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            text.lines().next().map(str::to_owned)
        };
        json!({
            "gpus": self.gpus,
            "cpus": self.cpus,
            "kernel": line("/proc/sys/kernel/osrelease"),
            "driver": line("/proc/driver/nvidia/version"),
            "nccl": path(&self.nccl),
            "cuda_runtime": path(&self.cudart),
            "cupti": path(&self.cupti),
            "python_with_torch": path(&self.torch),
            "nsys": path(&self.nsys),
        })
    }

    /// `LD_LIBRARY_PATH` for programs that are to find the libraries found here.
    pub(crate) fn library_path(&self) -> String {
        let found = [&self.nccl, &self.cudart, &self.cupti, &self.driver];
        let mut folders: Vec<String> =
            found.into_iter().filter_map(|library| Some(library.as_ref()?.parent()?.display().to_string())).collect();
        folders.dedup();
        folders.extend(std::env::var("LD_LIBRARY_PATH").ok());
        folders.join(":")
    }
}

/// Number of GPUs with a device file: nvidia0, not nvidiactl.
fn devices() -> usize {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let entries = Path::new("/dev").read_dir().into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.strip_prefix("nvidia").is_some_and(is_number)).count()
}

/// CUPTI's names, that of the CUDA release of the runtime first: NCCL's process is to have one release.
fn of_release(runtime: Option<&Path>) -> Vec<&'static str> {
    let name = runtime.and_then(|path| path.file_name()?.to_str());
    let major = name.and_then(|name| name.split('.').nth(2)).unwrap_or("");
    let mut names = CUPTI.to_vec();
    names.sort_by_key(|name| name.split('.').nth(2) != Some(major));
    names
}

/// The first name that any folder has; a name before another counts more than a folder before another.
fn first(folders: &[PathBuf], names: &[&str]) -> Option<PathBuf> {
    let mut files = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.find(|file| file.is_file())
}

fn folders(packages: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let given = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&given).collect();
    for site in packages {
        folders.extend(IN_PYTHON.iter().map(|inside| site.join(inside)));
    }
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
    for home in homes.map(PathBuf::from).chain(["/usr/local/cuda".into()]) {
        folders.extend([home.join("lib64"), home.join("extras/CUPTI/lib64")]);
    }
    folders.extend(OF_SYSTEM.map(PathBuf::from));
    folders
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn ask(python: &Path, script: &str, work: &Path) -> Option<String> {
    let mut ask = Command::new(python);
    ask.args(["-c", script]);
    let ran = process::run(&mut ask, Duration::from_secs(20), &work.join("python")).ok()?;
    ran.succeeded().then_some(ran.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cupti_is_of_the_release_of_the_runtime() {
        let names = of_release(Some(Path::new("/x/libcudart.so.12")));
        assert_eq!(names, ["libcupti.so.12", "libcupti.so.13", "libcupti.so.11.8"]);
        assert_eq!(of_release(Some(Path::new("/x/libcudart.so.11.0")))[0], "libcupti.so.11.8");
        assert_eq!(of_release(None), CUPTI);
    }
}
