//! Reads what a library file states about itself. Nothing is loaded or run.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use memchr::memmem;
use nccl_events::Table;
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::{Architecture, Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache, ReadRef, elf};

pub(crate) const OURS: &str = "nccl-profiler-otf2";

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
pub(crate) struct Nccl {
    pub(crate) is_rccl: bool,
    /// The version as `ncclGetVersion` returns it: 22809 is 2.28.9.
    pub(crate) number: u32,
    pub(crate) release: String,
    pub(crate) cuda: Option<String>,
    /// The highest version of the profiler interface that it looks up; 0 for none.
    pub(crate) table: u8,
}

impl Nccl {
    /// The plugin table that this NCCL calls; `None` if it has no profiler plugins.
    pub(crate) fn called(&self) -> Option<Table> {
        Table::of_number(self.table.min(Table::NEWEST.number()))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Library {
    pub(crate) path: PathBuf,
    pub(crate) architecture: Architecture,
    pub(crate) needed: Vec<String>,
    pub(crate) nccl: Option<Nccl>,
    pub(crate) profiler: Option<&'static str>,
    /// Whether NCCL can take its variables from the library.
    pub(crate) is_env_plugin: bool,
}

impl Library {
    /// The profiler's name; an error if the library is none.
    pub(crate) fn as_profiler(&self) -> Result<&'static str> {
        let exports = || {
            format!("{} is no profiler plugin: it exports no ncclProfiler_v1 … {}", self.path.display(), Table::NEWEST)
        };
        self.profiler.with_context(exports)
    }

    /// Fails if processes of this machine cannot load the library.
    pub(crate) fn fits_here(&self) -> Result<()> {
        let here = match std::env::consts::ARCH {
            "aarch64" => Architecture::Aarch64,
            "x86_64" => Architecture::X86_64,
            _ => return Ok(()),
        };
        let (path, its) = (self.path.display(), self.architecture);
        ensure!(its == here, "{path} is for {its:?}, and this machine is {here:?}");
        Ok(())
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let file =
            regular_files::open_named(path, u64::MAX).with_context(|| format!("cannot read {}", path.display()))?;
        let cache = ReadCache::new(file);
        let is_script = cache.read_bytes_at(0, 2) == Ok(b"#!");
        let advice = if is_script { ": it is a script; name the program or library that it uses" } else { "" };
        let no_library = || format!("{} is not a 64-bit library or program{advice}", path.display());
        // Without its end a library has no section table, and cannot be parsed.
        let (loaded, described) = described(&cache).with_context(no_library)?;
        let length = (&cache).len().unwrap_or(0);
        let kills = if loaded > length { ", and a process that loads it is killed by SIGBUS" } else { "" };
        let shown = path.display();
        ensure!(described <= length, "{shown} is cut short: it has {length} of {described} bytes{kills}");
        let file = ElfFile64::<Endianness, _>::parse(&cache).with_context(no_library)?;
        let texts = file.section_by_name(".rodata").and_then(|section| section.data().ok()).unwrap_or_default();
        let exports = |prefix: &str| {
            let mut symbols = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
            symbols.any(|symbol| symbol.name().is_ok_and(|name| name.starts_with(prefix)))
        };
        Ok(Self {
            path: path.to_owned(),
            architecture: file.architecture(),
            needed: needed(&file).unwrap_or_default(),
            nccl: nccl(texts),
            profiler: exports("ncclProfiler_v").then(|| {
                let known = PROFILERS.iter().find(|(variable, _)| contains(texts, variable));
                known.map_or("an unknown profiler", |(_, name)| name)
            }),
            is_env_plugin: exports("ncclEnvPlugin_v"),
        })
    }
}

/// The length that a file must have for its loaded segments, and for all that its headers describe.
fn described<'data>(file: impl ReadRef<'data>) -> object::Result<(u64, u64)> {
    let header = elf::FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let end = |(begin, bytes): (u64, u64)| begin.saturating_add(bytes);
    let table = |at: u64, entries: u16, bytes: u16| end((at, u64::from(entries) * u64::from(bytes)));
    let segments_end = table(header.e_phoff(endian), header.e_phnum(endian), header.e_phentsize(endian));
    let sections_end = table(header.e_shoff(endian), header.e_shnum(endian), header.e_shentsize(endian));
    let length = file.len().unwrap_or(0);
    if segments_end > length {
        return Ok((0, segments_end.max(sections_end)));
    }
    let segments = header.program_headers(endian, file)?.iter();
    let loaded = segments.filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let loaded = loaded.map(|segment| end(segment.file_range(endian))).fold(segments_end, u64::max);
    if sections_end > length {
        return Ok((loaded, loaded.max(sections_end)));
    }
    let sections = header.sections(endian, file)?;
    let sections = sections.iter().filter_map(|section| section.file_range(endian)).map(end);
    Ok((loaded, sections.fold(loaded.max(sections_end), u64::max)))
}

fn contains(texts: &[u8], text: &str) -> bool {
    memmem::find(texts, text.as_bytes()).is_some()
}

fn needed<'data, R: ReadRef<'data>>(file: &ElfFile64<'data, Endianness, R>) -> object::Result<Vec<String>> {
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
