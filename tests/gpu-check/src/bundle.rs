//! What lies beside this program.

use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    pub(crate) folder: PathBuf,
    /// `nccl-otf2`
    pub(crate) tool: PathBuf,
    /// `nccl-host`
    pub(crate) host: PathBuf,
    pub(crate) plugin: PathBuf,
    pub(crate) empty_plugin: PathBuf,
    pub(crate) fake_gpu: PathBuf,
    /// The same under the name by which it is a driver, once it is mapped.
    pub(crate) fake_driver: PathBuf,
    pub(crate) fake_cupti: PathBuf,
}

impl Bundle {
    pub(crate) fn here() -> Result<Self, String> {
        let me = std::env::current_exe()
            .and_then(|path| path.canonicalize())
            .map_err(|error| format!("cannot find this program's own file: {error}"))?;
        let folder = me.parent().unwrap_or(Path::new("/")).to_owned();
        let bundle = Self {
            tool: folder.join("bin/nccl-otf2"),
            host: folder.join("bin/nccl-host"),
            plugin: folder.join("lib/libnccl-profiler-otf2.so"),
            empty_plugin: folder.join("lib/libnccl-profiler-empty.so"),
            fake_gpu: folder.join("fake/libfakegpu.so"),
            fake_driver: folder.join("fake/libcuda.so.1"),
            fake_cupti: folder.join("fake/libcupti.so.13"),
            folder,
        };
        for file in [&bundle.tool, &bundle.host, &bundle.plugin] {
            if !file.is_file() {
                return Err(format!(
                    "no {}: this program works in the folder that `cargo xtask gpu-check --bundle DIR` makes",
                    file.display()
                ));
            }
        }
        Ok(bundle)
    }
}
