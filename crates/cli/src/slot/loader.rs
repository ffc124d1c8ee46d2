//! Predicts where the dynamic loader finds a library, without loading it.

use std::env;
use std::path::{Path, PathBuf};

/// The loader's built-in directories, for libraries that are not in its cache.
const DEFAULTS: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// The loader's search paths for a process started now.
#[derive(Debug, Default)]
pub(crate) struct Loader {
    searched: Vec<PathBuf>,
    cache: Vec<(String, PathBuf)>,
}

impl Loader {
    pub(crate) fn of_process() -> Self {
        // An empty value is no directory; an empty part of a value is the working directory.
        let searched = env::var_os("LD_LIBRARY_PATH").filter(|value| !value.is_empty());
        let searched = searched.iter().flat_map(env::split_paths).collect();
        let cache = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
        Self { searched, cache: entries(&cache).unwrap_or_default() }
    }

    pub(crate) fn is_known(&self) -> bool {
        !self.cache.is_empty()
    }

    /// The files with this name and where they were found, in the loader's order. A name with a `/` is a path.
    pub(crate) fn all(&self, name: &str) -> Vec<(PathBuf, &'static str)> {
        if name.contains('/') {
            return Path::new(name).is_file().then(|| (name.into(), "its path")).into_iter().collect();
        }
        let searched = self.searched.iter().map(|folder| (folder.join(name), "LD_LIBRARY_PATH"));
        let cached = self.cache.iter().filter(|(known, _)| known == name);
        let cached = cached.map(|(_, file)| (file.clone(), "the loader's cache"));
        let defaults = DEFAULTS.iter().map(|folder| (Path::new(folder).join(name), "the loader's directories"));
        let mut found: Vec<(PathBuf, &str)> = Vec::new();
        for (file, by) in searched.chain(cached).chain(defaults) {
            let is_known = |(known, _): &(PathBuf, _)| known.canonicalize().ok() == file.canonicalize().ok();
            if file.is_file() && !found.iter().any(is_known) {
                found.push((file, by));
            }
        }
        found
    }

    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        self.all(name).into_iter().next().map(|(file, _)| file)
    }
}

/// The entries of the loader's cache: a 48-byte header, then 24 bytes per entry with the offsets of its name and its
/// path (`glibc/sysdeps/generic/dl-cache.h`). A cache in an older format may precede it.
fn entries(bytes: &[u8]) -> Option<Vec<(String, PathBuf)>> {
    let table = bytes.get(memchr::memmem::find(bytes, b"glibc-ld.so.cache1.1")?..)?;
    let word = |at: usize| Some(u32::from_le_bytes(table.get(at..at + 4)?.try_into().ok()?) as usize);
    let text = |at: usize| {
        let rest = table.get(word(at)?..)?;
        let end = memchr::memchr(0, rest)?;
        Some(String::from_utf8_lossy(rest.get(..end)?).into_owned())
    };
    let places = (0..word(20)?).map(|index| 48 + 24 * index);
    Some(places.filter_map(|at| Some((text(at + 4)?, text(at + 8)?.into()))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_of_this_system_has_its_c_library() {
        let cache = std::fs::read("/etc/ld.so.cache").expect("a system with glibc");
        let loader = Loader { searched: Vec::new(), cache: entries(&cache).expect("a known format") };
        assert_eq!(loader.find("libc.so.6").expect("the C library").file_name().expect("a name"), "libc.so.6");
        assert!(entries(&cache[..cache.len() / 2]).expect("cut").len() < loader.cache.len());
        assert!(entries(b"no cache").is_none());
    }
}
