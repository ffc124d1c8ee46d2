//! What lies beside this program.

use std::path::{Path, PathBuf};

/// The folder that `cargo xtask gpu-check --bundle` makes.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    folder: PathBuf,
}

impl Bundle {
    /// The one that this program is in; the error says what is missing.
    pub(crate) fn here() -> Result<Self, String> {
        let me = std::env::current_exe()
            .and_then(|path| path.canonicalize())
            .map_err(|error| format!("cannot find this program's own file: {error}"))?;
        let folder = me.parent().unwrap_or(Path::new("/")).to_owned();
        let bundle = Self { folder };
        for file in [bundle.tool(), bundle.host(), bundle.plugin()] {
            if !file.is_file() {
                return Err(format!(
                    "no {}: this program works in the folder that `cargo xtask gpu-check --bundle DIR` makes",
                    file.display()
                ));
            }
        }
        Ok(bundle)
    }

    /// `nccl-otf2`
    pub(crate) fn tool(&self) -> PathBuf {
        self.folder.join("bin/nccl-otf2")
    }

    /// `nccl-host`
    pub(crate) fn host(&self) -> PathBuf {
        self.folder.join("bin/nccl-host")
    }

    /// `plugin-host`
    pub(crate) fn bench(&self) -> PathBuf {
        self.folder.join("bin/plugin-host")
    }

    /// The plugin.
    pub(crate) fn plugin(&self) -> PathBuf {
        self.folder.join("lib/libnccl-profiler-otf2.so")
    }

    /// A plugin that does nothing.
    pub(crate) fn empty_plugin(&self) -> PathBuf {
        self.folder.join("lib/libnccl-profiler-empty.so")
    }

    /// The stand-in for a GPU.
    pub(crate) fn fake_gpu(&self) -> PathBuf {
        self.folder.join("fake/libfakegpu.so")
    }

    /// The same under the name by which it is a driver, once it is mapped.
    pub(crate) fn fake_driver(&self) -> PathBuf {
        self.folder.join("fake/libcuda.so.1")
    }

    /// The double of CUPTI.
    pub(crate) fn fake_cupti(&self) -> PathBuf {
        self.folder.join("fake/libcupti.so.13")
    }

    /// What the bundle says of itself: lines of `name: value`.
    pub(crate) fn description(&self) -> Vec<(String, String)> {
        let text = std::fs::read_to_string(self.folder.join("BUNDLE")).unwrap_or_default();
        let pair = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_owned(), value.to_owned()))
        };
        text.lines().filter_map(pair).collect()
    }
}
