//! The files of the workspace, and the packages that cargo sees in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::process::output;
use anyhow::{Context as _, Result};

pub(super) struct Tree {
    pub(super) root: PathBuf,
    /// Relative to the root, sorted; what git ignores is left out.
    pub(super) files: Vec<String>,
    pub(super) packages: Vec<Package>,
}

pub(super) struct Package {
    pub(super) name: String,
    pub(super) folder: String,
    pub(super) targets: Vec<Target>,
    /// The packages of the workspace that it is built with, development dependencies left out.
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

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<MetadataTarget>,
    dependencies: Vec<MetadataDependency>,
}

#[derive(Deserialize)]
struct MetadataTarget {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct MetadataDependency {
    name: String,
    kind: Option<String>,
    path: Option<PathBuf>,
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
        let metadata: Metadata = serde_json::from_str(&output(cargo.current_dir(&root), "cargo metadata")?)
            .context("understand cargo metadata")?;
        let packages = metadata.packages.into_iter().map(|package| package.below(&root)).collect();
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
    pub(super) fn relative<'a>(&self, file: &'a str) -> Option<&'a str> {
        if self.folder.is_empty() { Some(file) } else { file.strip_prefix(&self.folder)?.strip_prefix('/') }
    }

    /// The name of its library in Rust code, where it has one.
    pub(super) fn library(&self) -> Option<&str> {
        let mut targets = self.targets.iter();
        targets.find(|target| target.kind == Kind::Library).map(|target| target.name.as_str())
    }
}

impl MetadataPackage {
    fn below(self, root: &Path) -> Package {
        let folder = relative(self.manifest_path.parent().unwrap_or(root), root);
        let target = |target: MetadataTarget| Target {
            kind: kind(&target.kind),
            name: target.name.replace('-', "_"),
            file: relative(&target.src_path, root),
        };
        let mut uses: Vec<String> = self
            .dependencies
            .into_iter()
            .filter(|dependency| dependency.path.is_some() && dependency.kind.as_deref() != Some("dev"))
            .map(|dependency| dependency.name)
            .collect();
        uses.sort();
        uses.dedup();
        Package { name: self.name, folder, targets: self.targets.into_iter().map(target).collect(), uses }
    }
}

fn kind(words: &[String]) -> Kind {
    match words.first().map(String::as_str) {
        Some("bin" | "custom-build") => Kind::Program,
        Some("test" | "bench" | "example") => Kind::Test,
        _ => Kind::Library,
    }
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}
