//! Variables as NCCL, and a plugin that it loads, see them: from the environment, then from NCCL's files.

use std::env;
use std::fmt;
use std::path::PathBuf;

pub(crate) use settings::PLUGIN;
use settings::{nccl_file_entries, nccl_files};

pub(crate) const CHAIN: &str = "NCCL_OTF2_CHAIN";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    name: String,
    pub(crate) value: String,
    /// NCCL's file that sets it; `None` for the environment.
    pub(crate) file: Option<PathBuf>,
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.name, self.value)?;
        self.file.iter().try_for_each(|file| write!(out, " in {}", file.display()))
    }
}

/// In the order of precedence: the first setting of a name counts.
#[derive(Debug)]
pub(crate) struct Variables(Vec<Setting>);

impl Variables {
    pub(crate) fn of_process() -> Self {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let environment: Vec<(String, String)> =
            env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect();
        Self::read(environment, nccl_files().into_iter())
    }

    fn read(environment: Vec<(String, String)>, files: impl Iterator<Item = PathBuf>) -> Self {
        let setting = |(name, value), file| Setting { name, value, file };
        let mut settings: Vec<Setting> = environment.into_iter().map(|pair| setting(pair, None)).collect();
        for file in files {
            settings.extend(nccl_file_entries(&file).into_iter().map(|pair| setting(pair, Some(file.clone()))));
        }
        Self(settings)
    }

    fn first(&self, name: &str) -> Option<&Setting> {
        self.0.iter().find(|setting| setting.name == name)
    }

    /// An empty value is none, but it hides the one in a file.
    pub(crate) fn get(&self, name: &str) -> Option<&Setting> {
        self.first(name).filter(|setting| !setting.value.is_empty())
    }

    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let counts = |setting: &&Setting| self.first(&setting.name) == Some(*setting);
        self.0.iter().filter(counts).map(|setting| (setting.name.clone(), setting.value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_comes_before_files_and_the_first_file_before_the_next() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
            folder.path().join(name)
        };
        let user = file("user", "# NCCL_A=0\nNCCL_A=user\nNCCL_A=again\nNCCL_B=user=x\nnonsense\nNCCL_E=user\n");
        let system = file("system", "NCCL_A=system\r\nNCCL_C=system\r\nNCCL_D=system\n");
        let environment = [("NCCL_D", "environment"), ("NCCL_E", "")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let files = [user.clone(), folder.path().join("absent"), system];
        let variables = Variables::read(environment, files.into_iter());
        let value = |name| variables.get(name).map(|setting| setting.value.as_str());
        let found = ["NCCL_A", "NCCL_B", "NCCL_C", "NCCL_D", "NCCL_E"].map(value);
        assert_eq!(found, [Some("user"), Some("user=x"), Some("system"), Some("environment"), None]);
        let shown = variables.get("NCCL_B").expect("set").to_string();
        assert_eq!(shown, format!("NCCL_B=user=x in {}", user.display()));
        assert_eq!(variables.pairs().len(), 5);
    }
}
