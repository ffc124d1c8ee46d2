//! The files of the workspace, and its packages according to cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::process::output;
use anyhow::{Context as _, Result};

pub(super) struct Tree {
    pub(super) root: PathBuf,
    /// Relative to the root, sorted; files ignored by git are left out.
    pub(super) files: Vec<String>,
    pub(super) packages: Vec<Package>,
}

pub(super) struct Package {
    pub(super) name: String,
    pub(super) folder: String,
    pub(super) targets: Vec<Target>,
    /// The workspace packages it depends on, without development dependencies.
    pub(super) uses: Vec<String>,
}

pub(super) struct Target {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) file: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Library,
    Program,
    Test,
}

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let root = root.canonicalize().with_context(|| format!("find {}", root.display()))?;
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let mut files: Vec<String> = output(git.current_dir(&root), "git ls-files")?
            .split('\0')
            .filter(|file| root.join(file).is_file())
            .map(str::to_owned)
            .collect();
        files.sort();
        files.dedup();
        let mut cargo = crate::cargo::command("metadata");
        cargo.args(["--no-deps", "--offline", "--format-version", "1"]);
        let metadata: Value = serde_json::from_str(&output(cargo.current_dir(&root), "cargo metadata")?)
            .context("understand cargo metadata")?;
        let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
        let packages = packages.iter().map(|package| Package::below(package, &root)).collect();
        Ok(Self { root, files, packages })
    }

    pub(super) fn text(&self, file: &str) -> Result<String> {
        std::fs::read_to_string(self.root.join(file)).with_context(|| format!("read {file}"))
    }

    pub(super) fn package(&self, file: &str) -> Option<&Package> {
        self.packages
            .iter()
            .filter(|package| package.relative(file).is_some())
            .max_by_key(|package| package.folder.len())
    }
}

impl Package {
    /// Reads a package from `cargo metadata`.
    fn below(metadata: &Value, root: &Path) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |name: &str| metadata[name].as_array().into_iter().flatten();
        let manifest = relative(&text(&metadata["manifest_path"]), root);
        let target = |target: &Value| Target {
            kind: kind(target["kind"][0].as_str()),
            name: text(&target["name"]).replace('-', "_"),
            file: relative(&text(&target["src_path"]), root),
        };
        let is_used = |dependency: &&Value| dependency["path"].is_string() && dependency["kind"] != "dev";
        let mut uses: Vec<String> =
            list("dependencies").filter(is_used).map(|dependency| text(&dependency["name"])).collect();
        uses.sort();
        uses.dedup();
        Self {
            name: text(&metadata["name"]),
            folder: manifest.rsplit_once('/').map_or_else(String::new, |(folder, _)| folder.to_owned()),
            targets: list("targets").map(target).collect(),
            uses,
        }
    }

    pub(super) fn relative<'a>(&self, file: &'a str) -> Option<&'a str> {
        if self.folder.is_empty() { Some(file) } else { file.strip_prefix(&self.folder)?.strip_prefix('/') }
    }

    /// The name of its library in Rust code, if it has one.
    pub(super) fn library(&self) -> Option<&str> {
        let mut targets = self.targets.iter();
        targets.find(|target| target.kind == Kind::Library).map(|target| target.name.as_str())
    }
}

fn kind(word: Option<&str>) -> Kind {
    match word {
        Some("bin" | "custom-build") => Kind::Program,
        Some("test" | "bench" | "example") => Kind::Test,
        _ => Kind::Library,
    }
}

fn relative(path: &str, root: &Path) -> String {
    let path = Path::new(path);
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}
