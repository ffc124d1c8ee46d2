//! Predicts which tools a process that uses NCCL would load: the profiler plugin, the plugin for NCCL's variables, and
//! NVTX's injection. Finds variables and libraries as NCCL and the dynamic loader find them. Loads and runs no library:
//! reads them as files.

use std::path::{Path, PathBuf};
use std::{env, fmt};

use crate::output;
use anyhow::{Context as _, Result, ensure};
use memchr::memmem;
use nccl_events::Table;
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::{Architecture, Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache, ReadRef, elf};
use settings::{ENV_PLUGIN, nccl_file_entries, nccl_files};

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
    /// The highest version of the profiler interface that this NCCL looks up; 0 for none.
    pub(crate) table: u8,
}

impl Nccl {
    /// The plugin table that this NCCL calls; `None` if it has no profiler plugins.
    pub(crate) fn called(&self) -> Option<Table> {
        Table::from_number(self.table.min(Table::NEWEST.number()))
    }
}

/// What a library file states about itself.
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
    /// The profiler's name. Fails if the library is no profiler plugin.
    pub(crate) fn as_profiler(&self) -> Result<&'static str> {
        let exports = || {
            format!(
                "{} is not a profiler plugin: it exports none of ncclProfiler_v1 … {}",
                self.path.display(),
                Table::NEWEST
            )
        };
        self.profiler.with_context(exports)
    }

    /// Fails if processes of this machine cannot load the library.
    pub(crate) fn fits_here(&self) -> Result<()> {
        let here = match env::consts::ARCH {
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
        // Check the length first: a truncated library lacks its section table and cannot be parsed.
        let (loaded, described) = described(&cache).with_context(no_library)?;
        let length = (&cache).len().unwrap_or(0);
        let kills = if loaded > length { ", and a process that loads it is killed by SIGBUS" } else { "" };
        let shown = path.display();
        ensure!(described <= length, "{shown} is truncated: it has {length} of {described} bytes{kills}");
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

/// The lengths in bytes that a file must have for its loaded segments, and for everything that its headers describe.
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

pub(crate) const CHAIN: &str = "NCCL_OTF2_CHAIN";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    name: String,
    pub(crate) value: String,
    /// NCCL's file that sets the variable; `None` for the environment.
    pub(crate) file: Option<PathBuf>,
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.name, self.value)?;
        self.file.iter().try_for_each(|file| write!(out, " in {}", file.display()))
    }
}

/// Variables as NCCL and its plugins see them: from the environment, then from NCCL's files. The first setting of a
/// name takes precedence.
#[derive(Debug)]
pub(crate) struct Variables(Vec<Setting>);

impl Variables {
    pub(crate) fn from_environment() -> Self {
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

    /// The setting of a variable. An empty value counts as unset, but still hides a value in a file.
    pub(crate) fn get(&self, name: &str) -> Option<&Setting> {
        self.first(name).filter(|setting| !setting.value.is_empty())
    }

    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let counts = |setting: &&Setting| self.first(&setting.name) == Some(*setting);
        self.0.iter().filter(counts).map(|setting| (setting.name.clone(), setting.value.clone())).collect()
    }
}

/// The loader's built-in directories, for libraries that are not in its cache.
const DEFAULTS: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// Predicts where the dynamic loader finds a library, without loading it, by the loader's search paths for a process
/// started now.
#[derive(Debug, Default)]
pub(crate) struct Loader {
    searched: Vec<PathBuf>,
    cache: Vec<(String, PathBuf)>,
}

impl Loader {
    pub(crate) fn from_environment() -> Self {
        // The loader ignores an empty value, but takes an empty part of a value for the working directory.
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
    let table = bytes.get(memmem::find(bytes, b"glibc-ld.so.cache1.1")?..)?;
    let word = |at: usize| Some(u32::from_le_bytes(table.get(at..at + 4)?.try_into().ok()?) as usize);
    let text = |at: usize| {
        let rest = table.get(word(at)?..)?;
        let end = memchr::memchr(0, rest)?;
        Some(String::from_utf8_lossy(rest.get(..end)?).into_owned())
    };
    let places = (0..word(20)?).map(|index| 48 + 24 * index);
    Some(places.filter_map(|at| Some((text(at + 4)?, text(at + 8)?.into()))).collect())
}

/// The profiler plugin that NCCL loads if no variable names one.
pub(crate) const DEFAULT: &str = "libnccl-profiler.so";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// NCCL loads the first of these names that the loader finds.
    Names(Vec<String>),
    Nothing,
    /// NCCL looks for the plugin's symbols in the program itself.
    Program,
}

/// How a release looks for a plugin of a kind (`profiler`, `env`), given the value of its variable.
pub(crate) fn search(kind: &str, release: u32, value: Option<&str>) -> Search {
    let Some(value) = value else {
        return Search::Names(vec![format!("libnccl-{kind}.so")]);
    };
    let begins =
        |text: &str| text.len() >= value.len() && text.as_bytes()[..value.len()].eq_ignore_ascii_case(value.as_bytes());
    if release >= 22_803 && value.eq_ignore_ascii_case("none") {
        return Search::Nothing;
    }
    // NCCL accepts any prefix of the name: it compares only as many letters as the value has.
    if begins("STATIC_PLUGIN") {
        return Search::Program;
    }
    let long = format!("libnccl-{kind}-{value}.so");
    let is_file = value.contains('/') || value.starts_with("lib") && value.ends_with(".so");
    Search::Names(match release {
        ..22_600 => vec![value.to_owned()],
        // This release's search by path never succeeds.
        22_703 if value.contains('/') => Vec::new(),
        22_803.. if is_file => vec![value.to_owned()],
        _ => vec![value.to_owned(), long],
    })
}

/// What a name in `NCCL_OTF2_CHAIN` stands for.
#[derive(Debug)]
pub(crate) enum ChainedPlugin {
    Plugin(PathBuf, &'static str),
    /// This project's plugin. It does not call itself, so the entry has no effect.
    Ours,
    /// The loader finds no library on this host. The hosts where the processes run may have it.
    Missing(String),
    /// A file that is no profiler plugin, or that kills or refuses the process that loads it.
    Unusable(String),
}

pub(crate) fn behind(loader: &Loader, name: &str) -> ChainedPlugin {
    let names = [format!("libnccl-profiler-{name}.so"), name.to_owned()];
    let names = if name.contains('/') { &names[1..] } else { &names[..] };
    let Some(file) = names.iter().find_map(|name| loader.find(name)) else {
        return ChainedPlugin::Missing(format!("the loader does not find {}", names.join(", nor ")));
    };
    let profiler = Library::read(&file).and_then(|library| library.fits_here().and_then(|()| library.as_profiler()));
    match profiler {
        Ok(OURS) => ChainedPlugin::Ours,
        Ok(profiler) => ChainedPlugin::Plugin(file, profiler),
        Err(error) => ChainedPlugin::Unusable(output::reasons(&error)),
    }
}

/// The first NCCL release that takes its variables from a plugin.
pub(crate) const FIRST_WITH_ENV_PLUGIN: u32 = 22_807;

/// The plugin from which NCCL takes its variables, which can overrule the environment: the text of the setting that
/// names it, and its file.
pub(crate) fn env_plugin(variables: &Variables, loader: &Loader) -> Option<(String, PathBuf)> {
    let setting = variables.get(ENV_PLUGIN);
    let Search::Names(names) = search("env", u32::MAX, setting.map(|setting| setting.value.as_str())) else {
        return None;
    };
    let file = names.iter().find_map(|name| loader.find(name))?;
    let is_one = Library::read(&file).is_ok_and(|library| library.is_env_plugin);
    is_one.then(|| (setting.map_or_else(|| "NCCL_ENV_PLUGIN is not set".to_owned(), ToString::to_string), file))
}

/// The variable that names NVTX's injection for 64-bit processes. NCCL only exists for these.
pub(crate) const INJECTION: &str = "NVTX_INJECTION64_PATH";

/// Tools that set [`INJECTION`]: a part of their library's path, and their name.
const TOOLS: [(&str, &str); 5] = [
    ("libToolsInjection", "Nsight Systems"),
    ("nsight-compute", "Nsight Compute"),
    ("sanitizer", "Compute Sanitizer"),
    ("scorep", "Score-P"),
    ("libcupti", "CUPTI"),
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Injection {
    Unset,
    /// A copy of this project's plugin. Ranges are recorded if NCCL loads the same file.
    Ours(PathBuf),
    /// Another tool, with its name if it is known.
    Of(&'static str),
    /// The value names no library that can be loaded, for this reason.
    Nobody(String),
}

/// Which library receives the process's NVTX ranges, and the variable's value. NVTX loads a single one. Settings in
/// NCCL's files are ignored, because NCCL reads them too late.
pub(crate) fn injection<'a>(variables: &'a Variables, loader: &Loader) -> (Injection, &'a str) {
    let Some(setting) = variables.get(INJECTION).filter(|setting| setting.file.is_none()) else {
        return (Injection::Unset, "");
    };
    let value = setting.value.as_str();
    let who = match loader.find(value).map(|file| Library::read(&file)) {
        None => Injection::Nobody(format!("the loader does not find {value}")),
        Some(Err(error)) => Injection::Nobody(error.to_string()),
        Some(Ok(library)) if library.profiler == Some(OURS) => Injection::Ours(library.path),
        Some(Ok(_)) => {
            let known = TOOLS.iter().find(|(part, _)| value.contains(part));
            Injection::Of(known.map_or("another tool", |(_, name)| name))
        }
    };
    (who, value)
}

#[cfg(test)]
mod tests {
    mod library {
        use crate::plugin_slot::*;

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

    mod variables {
        use crate::plugin_slot::*;

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

    mod loader {
        use crate::plugin_slot::*;

        #[test]
        fn the_cache_of_this_system_has_its_c_library() {
            let cache = std::fs::read("/etc/ld.so.cache").expect("a system with glibc");
            let loader = Loader { searched: Vec::new(), cache: entries(&cache).expect("a known format") };
            assert_eq!(loader.find("libc.so.6").expect("the C library").file_name().expect("a name"), "libc.so.6");
            assert!(entries(&cache[..cache.len() / 2]).expect("cut").len() < loader.cache.len());
            assert!(entries(b"no cache").is_none());
        }
    }

    mod search {
        use crate::plugin_slot::*;

        fn names(release: u32, value: &str) -> Vec<String> {
            match search("profiler", release, Some(value)) {
                Search::Names(names) => names,
                other => panic!("{other:?}"),
            }
        }

        #[test]
        fn each_release_has_its_own_names() {
            assert_eq!(names(22_501, "otf2"), ["otf2"]);
            assert_eq!(names(22_605, "otf2"), ["otf2", "libnccl-profiler-otf2.so"]);
            assert_eq!(names(22_809, "otf2"), ["otf2", "libnccl-profiler-otf2.so"]);
            assert_eq!(names(22_809, "/x/plugin.so"), ["/x/plugin.so"]);
            assert_eq!(names(22_809, "libnccl-profiler-otf2.so"), ["libnccl-profiler-otf2.so"]);
            assert!(names(22_703, "/x/plugin.so").is_empty());
            assert_eq!(search("profiler", 22_304, None), Search::Names(vec![DEFAULT.to_owned()]));
            assert_eq!(search("profiler", 22_809, Some("None")), Search::Nothing);
            assert_eq!(names(22_707, "none"), ["none", "libnccl-profiler-none.so"]);
            for value in ["STATIC_PLUGIN", "stat"] {
                assert_eq!(search("profiler", 22_809, Some(value)), Search::Program);
            }
        }
    }
}
