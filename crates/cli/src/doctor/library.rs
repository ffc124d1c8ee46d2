//! Reads what a library file states about itself. Nothing is loaded or run.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use memchr::memmem;
use nccl_events::Table;
use object::read::elf::{Dyn as _, ElfFile64};
use object::{Architecture, Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache, elf};

pub(super) const OURS: &str = "nccl-profiler-otf2";

/// Profiler plugins, recognised by the name of a variable that each reads.
const PROFILERS: [(&str, &str); 6] = [
    ("NCCL_OTF2_DIR", OURS),
    ("NCCL_INSPECTOR_ENABLE", "NVIDIA's inspector"),
    ("NCCL_TELEMETRY_MODE", "Google's CoMMA"),
    ("NCCL_PROFILER_OTEL_", "the OpenTelemetry profiler"),
    ("TAU_NCCL", "TAU"),
    ("NCCL_PROFILE_DUMP_FILE", "NVIDIA's example profiler"),
];

#[derive(Clone, Debug)]
pub(super) struct Nccl {
    pub(super) is_rccl: bool,
    /// The version as `ncclGetVersion` returns it: 22809 is 2.28.9.
    pub(super) number: u32,
    pub(super) release: String,
    pub(super) cuda: Option<String>,
    /// The highest version of the profiler interface that it looks up; 0 for none.
    pub(super) table: u8,
}

impl Nccl {
    /// The plugin table that this NCCL calls; `None` if it has no profiler plugins.
    pub(super) fn called(&self) -> Option<Table> {
        Table::of_number(self.table.min(Table::NEWEST.number()))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Library {
    pub(super) path: PathBuf,
    pub(super) architecture: Architecture,
    pub(super) needed: Vec<String>,
    pub(super) nccl: Option<Nccl>,
    pub(super) profiler: Option<&'static str>,
}

impl Library {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let file =
            regular_files::open_named(path, u64::MAX).with_context(|| format!("cannot read {}", path.display()))?;
        let cache = ReadCache::new(file);
        let file = ElfFile64::<Endianness, _>::parse(&cache);
        let file = file.with_context(|| format!("{} is not a 64-bit library or program", path.display()))?;
        let texts = file.section_by_name(".rodata").and_then(|section| section.data().ok()).unwrap_or_default();
        let is_profiler = file
            .dynamic_symbols()
            .any(|symbol| symbol.is_definition() && symbol.name().is_ok_and(|name| name.starts_with("ncclProfiler_v")));
        Ok(Self {
            path: path.to_owned(),
            architecture: file.architecture(),
            needed: needed(&file).unwrap_or_default(),
            nccl: nccl(texts),
            profiler: is_profiler.then(|| {
                let known = PROFILERS.iter().find(|(variable, _)| contains(texts, variable));
                known.map_or("an unknown profiler", |(_, name)| name)
            }),
        })
    }
}

fn contains(texts: &[u8], text: &str) -> bool {
    memmem::find(texts, text.as_bytes()).is_some()
}

fn needed<'data, R: object::ReadRef<'data>>(file: &ElfFile64<'data, Endianness, R>) -> object::Result<Vec<String>> {
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let Some((entries, link)) = sections.dynamic(endian, file.data())? else {
        return Ok(Vec::new());
    };
    let strings = sections.strings(endian, file.data(), link)?;
    let needed = entries.iter().filter(|entry| entry.tag32(endian) == Some(elf::DT_NEEDED));
    let names = needed.filter_map(|entry| strings.get(entry.val32(endian)?).ok());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// Finds the line that `NCCL_DEBUG=VERSION` prints: `NCCL version 2.28.9+cuda12.9`; RCCL's has a colon after "version".
fn nccl(texts: &[u8]) -> Option<Nccl> {
    let versions = |name: &[u8]| memmem::find_iter(texts, name).find_map(|at| version(texts.get(at + name.len()..)?));
    let (is_rccl, (numbers, rest)) = match versions(b"RCCL version ") {
        Some(version) => (true, version),
        None => (false, versions(b"NCCL version ")?),
    };
    let [major, minor, patch] = numbers;
    let highest = (1..=99_u8).rev().find(|version| contains(texts, &format!("ncclProfiler_v{version}\0")));
    Some(Nccl {
        is_rccl,
        number: major * 10_000 + minor * 100 + patch,
        release: format!("{major}.{minor}.{patch}"),
        cuda: rest.strip_prefix("+cuda").map(str::to_owned),
        table: highest.unwrap_or(0),
    })
}

fn version(text: &[u8]) -> Option<([u32; 3], String)> {
    let end = memchr::memchr(0, text)?.min(100);
    let text = String::from_utf8_lossy(text.get(..end)?);
    let text = text.trim_start_matches([' ', ':']);
    let length = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (numbers, rest) = text.split_at(length);
    let numbers: Vec<u32> = numbers.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    Some((numbers.try_into().ok()?, rest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_the_line_that_nccl_prints() {
        let texts = b"x\0NCCL version information\0NCCL version %s\0NCCL version 2.28.9+cuda12.9\0ncclProfiler_v4\0ncclProfiler_v5\0";
        let found = nccl(texts).expect("NCCL");
        assert_eq!((found.number, found.release.as_str(), found.table), (22_809, "2.28.9", 5));
        assert_eq!((found.cuda.as_deref(), found.is_rccl), (Some("12.9"), false));
        let found = nccl(b"\0RCCL version : 2.22.3-HEAD:0f1e2d\0ncclProfiler_v1\0").expect("RCCL");
        assert_eq!((found.number, found.table, found.is_rccl), (22_203, 1, true));
        assert!(nccl(b"NCCL version %s\0").is_none());
        assert_eq!(nccl(b"NCCL version 2.19.3+cuda12.3\0").map(|old| old.table), Some(0));
    }
}
