//! Puts the plugin into NCCL's slot and NVTX's, keeps behind it what it displaces, and says what others have set.

use std::path::Path;
use std::{env, fmt};

use anyhow::{Context as _, Result, anyhow, ensure};
use settings::NvtxChoice;

use super::request::Request;
use super::settings::Variables;
use crate::print;
use crate::slot::{
    Behind, CHAIN, DEFAULT, INJECTION, Injection, Library, Loader, OURS, PLUGIN, Search, behind, env_plugin, injection,
    search,
};

/// What recipes set for this plugin.
const BY_NAME: &str = "otf2";

struct Places {
    set: crate::slot::Variables,
    loader: Loader,
    /// Only one process of a job says what holds for all.
    is_first: bool,
}

/// The variables that bring the plugin into the command's processes. Fails if it is not this project's, or damaged.
pub(super) fn variables(plugin: &Path, request: &Request, is_first: bool) -> Result<Variables> {
    let places = Places { set: crate::slot::Variables::of_process(), loader: Loader::of_process(), is_first };
    places.examine(plugin)?;
    let value = if request.by_name {
        let file = plugin.file_name();
        file.ok_or_else(|| anyhow!("{} has no file name", plugin.display()))?
    } else {
        plugin.as_os_str()
    };
    let mut variables: Variables = vec![(PLUGIN, value.to_owned())];
    if request.by_name {
        let directory = plugin.parent().map(Path::to_owned).into_iter();
        let searched = env::var_os("LD_LIBRARY_PATH").filter(|value| !value.is_empty());
        let searched: Vec<_> = searched.iter().flat_map(env::split_paths).collect();
        let joined = env::join_paths(directory.chain(searched))
            .with_context(|| format!("{} cannot be in LD_LIBRARY_PATH", plugin.display()))?;
        variables.push(("LD_LIBRARY_PATH", joined));
    }
    let chain = places.sound_chain();
    let displaced = places.displaced(&value.to_string_lossy(), request.no_chain);
    variables.extend(chain.or(displaced).map(|chain| (CHAIN, chain.into())));
    places.say_overruled();
    places.ranges(plugin, request, &mut variables);
    Ok(variables)
}

impl Places {
    fn say(&self, text: impl fmt::Display) {
        if self.is_first {
            print::note(text);
        }
    }

    /// A library that is cut short kills each process that loads it.
    fn examine(&self, plugin: &Path) -> Result<()> {
        let library = Library::read(plugin).and_then(|library| Ok((library.as_profiler()?, library)));
        let (profiler, library) = library.context("the plugin cannot be used (--plugin names another one)")?;
        ensure!(profiler == OURS, "{} is {profiler}, not this project's plugin (--plugin FILE)", plugin.display());
        // The command may start its processes on other machines.
        if let Err(error) = library.fits_here() {
            self.say(format_args!("{error}: no process here can load it"));
        }
        Ok(())
    }

    /// The user's own `NCCL_OTF2_CHAIN` without what would kill the processes; `None` if nothing is wrong with it.
    fn sound_chain(&self) -> Option<String> {
        let names: Vec<&str> = self.set.get(CHAIN)?.value.split(',').map(str::trim).collect();
        let is_usable = |name: &&str| {
            let found = behind(&self.loader, name);
            if let Behind::Unusable(reason) = &found {
                self.say(format_args!("{CHAIN}={name}: {reason}; it is left out"));
            }
            !matches!(found, Behind::Unusable(_))
        };
        let sound: Vec<&str> = names.iter().copied().filter(is_usable).collect();
        (sound.len() < names.len()).then(|| sound.join(","))
    }

    /// Says what NCCL would have loaded. Returns its name if it is to be called behind this plugin.
    fn displaced(&self, value: &str, no_chain: bool) -> Option<String> {
        let setting = self.set.get(PLUGIN).map(|setting| (setting, setting.value.as_str()));
        let name = setting.map_or(DEFAULT, |(_, name)| name);
        if name == value {
            return None;
        }
        let what = setting.map_or_else(|| format!("{name}, which NCCL loads by default,"), |it| it.0.to_string());
        let replaced = format!("{what} is replaced by {value}");
        let only = "NCCL loads one profiler plugin only";
        let found = match search("profiler", u32::MAX, setting.map(|(_, name)| name)) {
            Search::Nothing => return None,
            Search::Program => Behind::Unusable("it is the program itself".to_owned()),
            Search::Names(_) if name.contains(',') => Behind::Unusable(format!("commas separate names in {CHAIN}")),
            Search::Names(_) => behind(&self.loader, name),
        };
        let (file, profiler) = match found {
            Behind::Plugin(file, profiler) => (file, profiler),
            Behind::Ours => return None,
            // By its name this plugin need not be where the loader looks.
            Behind::Missing(_) if setting.is_none() || name == BY_NAME => return None,
            Behind::Missing(reason) | Behind::Unusable(reason) => {
                self.say(format_args!("{replaced}: {only}, and that one cannot be called behind it: {reason}"));
                return None;
            }
        };
        match self.set.get(CHAIN) {
            Some(chain) if self.is_in(&chain.value, &file) => None,
            Some(_) => {
                self.say(format_args!("{replaced}: {only}, and {CHAIN} is set without it"));
                None
            }
            None if no_chain => {
                self.say(format_args!("{replaced}: {only}"));
                None
            }
            None => {
                let file = file.display();
                self.say(format_args!(
                    "{replaced}, which calls {profiler} ({file}) behind itself; --no-chain leaves it out"
                ));
                Some(name.to_owned())
            }
        }
    }

    fn is_in(&self, chain: &str, file: &Path) -> bool {
        chain.split(',').any(|name| match behind(&self.loader, name.trim()) {
            Behind::Plugin(found, _) => found.canonicalize().ok() == file.canonicalize().ok(),
            _ => false,
        })
    }

    fn say_overruled(&self) {
        if let Some((given, file)) = env_plugin(&self.set, &self.loader) {
            self.say(format_args!(
                "{given}: NCCL 2.28.7 and later takes its variables from {}, which can overrule {PLUGIN} \
                 (NCCL_ENV_PLUGIN=none keeps it out)",
                file.display()
            ));
        }
    }

    /// NVTX has one place: another tool keeps it.
    fn ranges(&self, plugin: &Path, request: &Request, variables: &mut Variables) {
        if request.settings.nvtx(self.set.pairs()) == NvtxChoice::Off {
            return;
        }
        match injection(&self.set, &self.loader) {
            (Injection::Unset, _) => variables.push((INJECTION, plugin.into())),
            (Injection::Ours(file), _) if file.canonicalize().ok() == plugin.canonicalize().ok() => {}
            // A process has two recorders then, of which only one sees NCCL.
            (Injection::Ours(file), _) => {
                self.say(format_args!(
                    "{INJECTION} is {}, not another copy of it ({})",
                    plugin.display(),
                    file.display()
                ));
                variables.push((INJECTION, plugin.into()));
            }
            (Injection::Of(who), value) => {
                self.say(format_args!("{INJECTION}={value} stays: {who} gets NVTX ranges, and they are not recorded"));
            }
            (Injection::Nobody(reason), _) => {
                self.say(format_args!(
                    "{INJECTION} stays, but {reason}: nobody gets NVTX ranges, and they are not recorded"
                ));
            }
        }
    }
}
