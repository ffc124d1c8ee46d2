//! Which shared libraries this process has mapped: found out by reading, without touching any of them.

use std::path::{Path, PathBuf};

/// The files that a process has mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    files: Vec<PathBuf>,
}

impl Mapped {
    /// Those of this process; none where `/proc` is not there.
    pub fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default())
    }

    /// The files that a process would have mapped.
    pub fn of(files: Vec<PathBuf>) -> Self {
        Self { files }
    }

    /// Takes the text of a `maps` file.
    pub fn parse(maps: &str) -> Self {
        let mut files = Vec::new();
        for line in maps.lines() {
            // The path is the last of six columns, and can have spaces of its own.
            let Some(start) = line.find('/') else {
                continue;
            };
            let path = line.get(start..).unwrap_or_default();
            let path = Path::new(path.strip_suffix(" (deleted)").unwrap_or(path));
            // The parts of a file follow each other.
            if files.last().is_none_or(|last| last != path) {
                files.push(path.to_owned());
            }
        }
        Self { files }
    }

    /// All of them; one may be there several times.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// The files whose names begin with `stem` and a dot, `libcudart.so` and `libcudart.so.12` for `libcudart`;
    /// a part of the name that a package adds (`libcudart-d0da41ae.so.11.0`) does no harm.
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
