// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a configuration needs beyond its devices while packets flow: by its classes, and by the paths in its arguments.
//!
//! A worker's filter cannot be widened later. So a configuration that is swapped in may need no more than the first one had, or what
//! the command line adds ([`Needs::lacks`]).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What workers do beyond moving packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// They open files: some handlers of elements do, and dumps that continue with another file.
    pub files: bool,
    /// They open, connect and bind sockets.
    pub sockets: bool,
}

/// Classes whose elements open files on a worker, at a packet or a handler.
const OPEN_FILES: [&str; 14] = [
    "AggregateCounter",
    "AggregateIPFlows",
    "Balance",
    "DriverManager",
    "Firewall",
    "FromDump",
    "FromIPSummaryDump",
    "LookupIPRoute",
    "NAT44",
    "NAT64",
    "Script",
    "SessionSync",
    "ToDump",
    "ToIPSummaryDump",
];

/// Classes whose elements also make sockets on a worker.
const OPEN_SOCKETS: [&str; 3] = ["ControlSocket", "McastSocket", "Socket"];

/// Classes whose elements write to the files that they name.
const WRITE_FILES: [&str; 12] = [
    "ARPPrint",
    "AggregateCounter",
    "AggregateIPFlows",
    "ControlSocket",
    "DriverManager",
    "IP6Print",
    "IPPrint",
    "Print",
    "Script",
    "Socket",
    "ToDump",
    "ToIPSummaryDump",
];

/// Whether elements of a class write files, or as much to standard output as they are asked for.
pub fn writes_files(class: &str) -> bool {
    WRITE_FILES.contains(&class)
}

impl Needs {
    /// Those of elements of these classes.
    pub fn of<'a>(classes: impl IntoIterator<Item = &'a str>) -> Needs {
        classes.into_iter().fold(Needs::default(), |all, class| {
            let (files, sockets) = (OPEN_FILES.contains(&class), OPEN_SOCKETS.contains(&class));
            Needs { files: all.files || files || sockets, sockets: all.sockets || sockets }
        })
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Needs) -> Needs {
        Needs { files: self.files || other.files, sockets: self.sockets || other.sockets }
    }

    /// What of `wanted` is not there, in words.
    pub fn lacks(self, wanted: Needs) -> Option<&'static str> {
        match (wanted.sockets && !self.sockets, wanted.files && !self.files) {
            (true, _) => Some("sockets"),
            (false, true) => Some("files"),
            (false, false) => None,
        }
    }
}

/// The files that a configuration names, by the words of its arguments: those to be read, and those to be written.
#[derive(Debug, Default)]
pub struct Named {
    /// Directories of files to be read.
    pub read: BTreeSet<PathBuf>,
    /// Directories of files to be written.
    pub write: BTreeSet<PathBuf>,
}

impl Named {
    /// Takes the paths among an element's arguments.
    pub fn element(&mut self, class: &str, arguments: &str) {
        let ends =
            |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '"' | '\'' | '(' | ')' | '<' | '>' | '=');
        for word in arguments.split(ends).filter(|word| !word.is_empty()) {
            let Some(directory) = directory_of(Path::new(word)) else { continue };
            self.read.insert(directory.clone());
            if WRITE_FILES.contains(&class) {
                self.write.insert(directory);
            }
        }
    }

    /// Takes a file that is to be read.
    pub fn reads(&mut self, file: &Path) {
        self.read.extend(directory_of(file));
    }

    /// Takes a file that is to be written.
    pub fn writes(&mut self, file: &Path) {
        self.write.extend(directory_of(file));
    }
}

/// The directory of a file that is there or could be made: editors put a new file in an old one's place, and rule files include others
/// next to them. A bare word is a file only if there is one. The root directory is nobody's.
fn directory_of(file: &Path) -> Option<PathBuf> {
    let parent = file.parent()?;
    let directory = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let is_path = file.components().count() > 1 && directory.is_dir();
    let directory = directory.canonicalize().ok().filter(|d| d.parent().is_some())?;
    (is_path || file.exists()).then_some(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_needs_what_its_classes_do() {
        let check = |classes: &[&str], files, sockets| {
            assert_eq!(Needs::of(classes.iter().copied()), Needs { files, sockets }, "{classes:?}");
        };
        check(&[], false, false);
        check(&["FromDevice", "Counter", "Discard"], false, false);
        check(&["Counter", "ToDump"], true, false);
        check(&["Socket"], true, true);
    }

    #[test]
    fn a_later_configuration_may_need_no_more() {
        let (none, files) = (Needs::default(), Needs { files: true, sockets: false });
        let all = Needs { files: true, sockets: true };
        let cases = [
            (none, none, None),
            (none, files, Some("files")),
            (files, all, Some("sockets")),
            (all, files, None),
        ];
        for (has, wants, lacks) in cases {
            assert_eq!(has.lacks(wants), lacks, "{has:?} {wants:?}");
        }
    }

    #[test]
    fn paths_are_found_among_arguments() {
        let temp = tempfile::tempdir().unwrap();
        let at = temp.path().canonicalize().unwrap();
        std::fs::write(at.join("rules"), "").unwrap();
        let check = |class: &str, arguments: &str, reads: bool, writes: bool| {
            let mut named = Named::default();
            named.element(class, &arguments.replace("DIR", at.to_str().unwrap()));
            assert_eq!(named.read.contains(&at), reads, "{class} {arguments}");
            assert_eq!(named.write.contains(&at), writes, "{class} {arguments}");
            assert!(!named.read.contains(Path::new("/")), "{class} {arguments}");
        };
        check("Firewall2", "FILE DIR/rules, ZONE a", true, false);
        check("ToDump", "\"DIR/not there yet\", SNAPLEN 0", true, true);
        check("Script", "save a.b >DIR/x", true, true);
        check("LookupIPRoute", "10.0.0.0/8 0, 0/0 1, / 2", false, false);
        check("Print", "DIR-nowhere/x", false, false);
    }
}
