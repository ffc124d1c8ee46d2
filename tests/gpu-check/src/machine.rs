//! What this machine has, and what lies beside this program.

use std::path::{Path, PathBuf};

use gpu_check::{CUDA_RUNTIME, NCCL, ask, devices, first, folders};
use serde_json::{Value, json};

use crate::options::Options;

const CUPTI: [&str; 3] = ["libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"];

pub(crate) const HOST: &str = "bin/nccl-host";
pub(crate) const TOOL: &str = "bin/nccl-otf2";
pub(crate) const PLUGIN: &str = "lib/libnccl-profiler-otf2.so";

/// The folder that has this program, and what lies beside it.
#[derive(Clone, Debug)]
pub(crate) struct Bundle(PathBuf);

impl Bundle {
    pub(crate) fn here() -> Result<Self, String> {
        let mut folder = std::env::current_exe()
            .and_then(|path| path.canonicalize())
            .map_err(|error| format!("cannot find this program's own file: {error}"))?;
        folder.pop();
        let bundle = Self(folder);
        let files = [TOOL, HOST, PLUGIN].map(|name| bundle.file(name));
        match files.iter().find(|file| !file.is_file()) {
            None => Ok(bundle),
            Some(file) => Err(format!(
                "no {}: this program works in the folder that `cargo xtask gpu-check --bundle DIR` makes",
                file.display()
            )),
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) gpus: usize,
    pub(crate) nccl: Option<PathBuf>,
    pub(crate) cudart: Option<PathBuf>,
    pub(crate) cupti: Option<PathBuf>,
    pub(crate) driver: Option<PathBuf>,
    pub(crate) torch: Option<PathBuf>,
    pub(crate) nsys: Option<PathBuf>,
}

impl Machine {
    pub(crate) fn look(options: &Options, bundle: &Bundle) -> Self {
        if options.fake_gpu {
            let fake = |name| Some(bundle.file(name));
            let (cupti, driver) = (fake("fake/libcupti.so.13"), fake("fake/libcuda.so.1"));
            return Self { nccl: options.nccl.clone(), cupti, driver, ..Self::default() };
        }
        let python = options.python.clone().or_else(|| on_path("python3"));
        let folders = folders(python.as_deref());
        let find = |given: &Option<PathBuf>, names: &[&str]| given.clone().or_else(|| first(&folders, names));
        let cudart = find(&options.cudart, &CUDA_RUNTIME);
        let torch = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)";
        Self {
            gpus: devices(),
            nccl: find(&options.nccl, &NCCL),
            cupti: find(&options.cupti, &cupti_names(cudart.as_deref())),
            cudart,
            driver: None,
            torch: python.filter(|python| ask(python, torch).is_some()),
            nsys: on_path("nsys"),
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
            "cpus": std::thread::available_parallelism().map_or(1, usize::from),
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

/// CUPTI's names, that of the CUDA release of the runtime first: NCCL's process is to have one release.
fn cupti_names(runtime: Option<&Path>) -> Vec<&'static str> {
    let name = runtime.and_then(|path| path.file_name()?.to_str());
    let major = name.and_then(|name| name.split('.').nth(2)).unwrap_or("");
    let mut names = CUPTI.to_vec();
    names.sort_by_key(|name| name.split('.').nth(2) != Some(major));
    names
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cupti_is_of_the_release_of_the_runtime() {
        let names = cupti_names(Some(Path::new("/x/libcudart.so.12")));
        assert_eq!(names, ["libcupti.so.12", "libcupti.so.13", "libcupti.so.11.8"]);
        assert_eq!(cupti_names(Some(Path::new("/x/libcudart.so.11.0")))[0], "libcupti.so.11.8");
        assert_eq!(cupti_names(None), CUPTI);
    }
}
