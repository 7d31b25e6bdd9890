// SPDX-License-Identifier: MIT OR Apache-2.0
//! The planes of a saved configuration: those of its `deployment.toml`, or one with its `router.click`.

use std::path::Path;

use planes::deployment::{self, Deployment, Partition, Plane, Program, Ready, Restart};
use saved::{Files, Layout};

pub(crate) const ROUTER: &str = "router.click";
pub(crate) const DEPLOYMENT: &str = "deployment.toml";

/// The name that a deployment has if it does not say one: that of its file.
const UNNAMED: &str = "deployment";

/// The deployment of a configuration as text, with the service's name.
///
/// # Errors
/// There is none, it cannot be read, or it has another name.
pub(crate) fn text(name: &str, files: &Files) -> Result<String, String> {
    let Some(file) = files.get(DEPLOYMENT) else {
        return match files.contains_key(ROUTER) {
            true => {
                Ok(format!("name = \"{name}\"\n[planes.router]\nkind = \"user\"\nconfig = \"{ROUTER}\"\n"))
            }
            false => Err(format!("there is neither {ROUTER} nor {DEPLOYMENT}; write one of them")),
        };
    };
    let text = std::str::from_utf8(&file.bytes).map_err(|_| format!("{DEPLOYMENT} is not UTF-8"))?;
    match read(text)?.name {
        named if named == name => Ok(text.to_owned()),
        unnamed if unnamed == UNNAMED => Ok(format!("name = \"{name}\"\n{text}")),
        other => Err(format!(
            "{DEPLOYMENT} is called '{other}', but the service '{name}'; leave its line `name` out"
        )),
    }
}

fn read(text: &str) -> Result<Deployment, String> {
    // The path is of no account, but it must not change.
    let found = deployment::read(&Path::new("/").join(DEPLOYMENT), text);
    let why = || lang::render(&found.diagnostics, &found.sources, false);
    found.deployment.ok_or_else(why)
}

/// The planes of a configuration.
///
/// # Errors
/// As [`text`].
pub(crate) fn layout(name: &str, files: &Files) -> Result<Layout, String> {
    let deployment = read(&text(name, files)?)?;
    let names = |ids: &[usize]| ids.iter().map(|id| deployment.planes[*id].name.clone()).collect::<Vec<_>>();
    let plane = |plane: &Plane| saved::Plane {
        name: plane.name.clone(),
        is_router: matches!(plane.program, Program::Router { .. }) && plane.partition == Partition::Process,
        form: form(plane),
        words: words(plane),
        after: names(&plane.after),
    };
    let Deployment { placement, cores, channels, calls, statistics, .. } = &deployment;
    let supervision = deployment.planes.iter().map(|plane| {
        let Plane { name, restart, backoff, backoff_max, ready, start_timeout, stop_timeout, .. } = plane;
        let others = (names(&plane.after), names(&plane.bound_to));
        format!("{name} {others:?} {restart:?} {backoff:?} {backoff_max:?} {ready:?} {start_timeout:?} {stop_timeout:?}\n")
    });
    Ok(Layout {
        whole: format!("{placement:?} {cores:?} {channels:?} {calls:?} {statistics:?}"),
        supervision: supervision.collect(),
        planes: deployment.planes.iter().map(plane).collect(),
    })
}

/// All that a plane's process depends on.
fn form(plane: &Plane) -> String {
    let process = Plane {
        after: Vec::new(),
        bound_to: Vec::new(),
        restart: Restart::Always,
        backoff: std::time::Duration::ZERO,
        backoff_max: std::time::Duration::ZERO,
        ready: Ready::Started,
        start_timeout: std::time::Duration::ZERO,
        stop_timeout: std::time::Duration::ZERO,
        ..plane.clone()
    };
    format!("{process:?}")
}

/// Words that may name files.
fn words(plane: &Plane) -> Vec<String> {
    let mut words: Vec<String> = match &plane.program {
        Program::Router { config, set, arguments } => {
            let values = set.iter().map(|(_, value)| value.clone());
            std::iter::once(config.display().to_string())
                .chain(values)
                .chain(arguments.iter().cloned())
                .collect()
        }
        Program::Command(words) => words.clone(),
    };
    words.extend(plane.environment.iter().map(|(_, value)| value.clone()));
    words
}

/// The planes that run this program, in the order in which they are started, and are no guests.
///
/// # Errors
/// As [`text`].
pub(crate) fn of_this_program(name: &str, files: &Files) -> Result<Vec<String>, String> {
    let is_ours = |plane: &&Plane| {
        plane.partition == Partition::Process
            && match &plane.program {
                Program::Router { .. } => true,
                Program::Command(words) => {
                    words.first().is_some_and(|program| Path::new(program).ends_with("junctor"))
                }
            }
    };
    let planes = read(&text(name, files)?)?.planes;
    Ok(planes.iter().filter(is_ours).map(|plane| plane.name.clone()).collect())
}

/// Configurations of the routers of a deployment, with values of their variables.
///
/// # Errors
/// As [`text`].
pub(crate) fn routers(name: &str, files: &Files) -> Result<Vec<Router>, String> {
    let of = |plane: Plane| match plane.program {
        Program::Router { config, set, .. } => Some((config.display().to_string(), set)),
        Program::Command(_) => None,
    };
    Ok(read(&text(name, files)?)?.planes.into_iter().filter_map(of).collect())
}

/// The path of a router's configuration, and values of its variables.
pub(crate) type Router = (String, Vec<(String, String)>);

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        let file = |text: &str| saved::File { bytes: text.as_bytes().to_vec(), mode: 0o644, owner: (0, 0) };
        list.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
    }

    const TWO: &str = "[planes.user]\nkind = \"user\"\nconfig = \"r.click\"\nset = { RULES = \"fw\" }\n\
        [planes.other]\nkind = \"control\"\ncommand = [\"sleep\", \"1\"]\nafter = [\"user\"]\n";

    #[test]
    fn a_router_alone_is_a_deployment() {
        let layout = layout("edge", &files(&[("router.click", "x")])).unwrap();
        let [plane] = &layout.planes[..] else { panic!("{layout:?}") };
        assert!(plane.is_router && plane.name == "router" && plane.words == ["router.click"]);
    }

    #[test]
    fn a_deployment_has_the_name_of_its_service() {
        let with = |name: &str| files(&[("deployment.toml", &format!("{name}{TWO}"))]);
        assert_eq!(text("edge", &with("")).unwrap(), format!("name = \"edge\"\n{TWO}"));
        assert_eq!(text("edge", &with("name = \"edge\"\n")).unwrap(), format!("name = \"edge\"\n{TWO}"));
        assert!(text("edge", &with("name = \"core\"\n")).unwrap_err().contains("leave its line `name` out"));
        assert!(text("edge", &files(&[("x", "")])).unwrap_err().contains("neither router.click nor"));
        assert!(layout("edge", &with("[planes")).unwrap_err().contains("E0701"));
    }

    #[test]
    fn other_programs_are_not_ours() {
        let more = "[planes.c]\nkind = \"control\"\ncommand = [\"/usr/bin/junctor\", \"control\"]\n";
        let ours = of_this_program("edge", &files(&[("deployment.toml", &format!("{TWO}{more}"))]));
        assert_eq!(ours.unwrap(), ["user", "c"]);
    }

    #[test]
    fn supervision_is_no_form() {
        let of = |text: &str| layout("edge", &files(&[("deployment.toml", text)])).unwrap();
        let (one, two) = (of(TWO), of(&format!("{TWO}backoff = \"3s\"\n")));
        assert_eq!(one.planes, two.planes);
        assert_ne!(one.supervision, two.supervision);
        assert_eq!(one.planes[0].words, ["r.click", "fw"]);
        assert_eq!(one.planes[1].after, ["user"]);
        let niced = of(&format!("{TWO}nice = 3\n"));
        assert_ne!(one.planes[1].form, niced.planes[1].form);
        assert_eq!((&one.planes[0], &one.whole), (&niced.planes[0], &niced.whole));
        assert_ne!(one.whole, of(&format!("placement = \"smp\"\ncores = \"0\"\n{TWO}")).whole);
    }
}
