//! Lists the shared libraries that this process has mapped, without touching any of them.

use std::path::{Path, PathBuf};

/// The files mapped by a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    files: Vec<PathBuf>,
}

impl Mapped {
    /// The files mapped by this process; none if `/proc` is missing.
    pub fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default())
    }

    /// Pretends that a process has mapped these files.
    pub fn from_files(files: Vec<PathBuf>) -> Self {
        Self { files }
    }

    /// Parses the text of a `maps` file.
    pub fn parse(maps: &str) -> Self {
        let mut files = Vec::new();
        for line in maps.lines() {
            // The path is the last of six columns and may contain spaces.
            let Some(start) = line.find('/') else {
                continue;
            };
            let path = line.get(start..).unwrap_or_default();
            let path = Path::new(path.strip_suffix(" (deleted)").unwrap_or(path));
            // The mappings of one file are adjacent.
            if files.last().is_none_or(|last| last != path) {
                files.push(path.to_owned());
            }
        }
        Self { files }
    }

    /// All mapped files; a file may occur more than once.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// The files whose names are `stem` followed by a dot (`libcudart.so` and `libcudart.so.12` for `libcudart`), or
    /// by a suffix that a package adds (`libcudart-d0da41ae.so.11.0`).
    pub fn libraries(&self, stem: &str) -> impl Iterator<Item = &Path> {
        self.files().filter(move |path| {
            let rest = path.file_name().and_then(|name| name.to_str()?.strip_prefix(stem));
            rest.is_some_and(|rest| rest.starts_with('.') || rest.starts_with('-') && rest.contains(".so"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 08:01 1 /usr/bin/python3.11
7f0000000000-7f0000001000 r--p 00000000 08:01 2 /opt/my venv/nvidia/cuda_runtime/lib/libcudart.so.12
7f0000001000-7f0000002000 r-xp 00001000 08:01 2 /opt/my venv/nvidia/cuda_runtime/lib/libcudart.so.12
7f0000003000-7f0000004000 r-xp 00000000 08:01 3 /usr/lib/libcudart_static_not.so
7f0000005000-7f0000006000 r-xp 00000000 08:01 4 /tmp/libcudart-d0da41ae.so.11.0 (deleted)
7fff00000000-7fff00001000 rw-p 00000000 00:00 0 [stack]
";

    #[test]
    fn libraries_are_found_by_their_names() {
        let mapped = Mapped::parse(MAPS);
        let files = ["/opt/my venv/nvidia/cuda_runtime/lib/libcudart.so.12", "/tmp/libcudart-d0da41ae.so.11.0"];
        assert!(mapped.libraries("libcudart").eq(files.map(Path::new)));
        assert_eq!(mapped.libraries("libcuda").count(), 0);
    }
}
