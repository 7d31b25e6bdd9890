// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guide's files and configurations are sound, and commands that need no running router print what the pages show.

use testbed::pages::{Block, blocks, pages, shows};
use testbed::rig::{Namespace, skip};

use crate::machine::JUNCTOR;

/// Languages of files, and the command that checks them.
const FILES: [(&str, &str); 4] =
    [("balance", "balance check"), ("click", "check"), ("firewall", "firewall check"), ("nat", "nat check")];
/// Commands that need no running router.
const ALONE: [&str; 7] =
    ["balance check", "firewall check", "firewall test", "init ", "nat check", "nat test", "router "];
/// Parts of configurations, by a line of theirs: what stands before and behind them to make them whole.
const PARTS: [(&str, &str, &str); 3] = [
    ("mpls :: LookupMPLS(", "", "Idle -> mpls; mpls[0-2] => [0,0,0] Discard;\n"),
    (
        "rt[3] -> DecIPTTL -> PushMPLS",
        "Idle -> rt :: StaticIPLookup(0.0.0.0/0 3); arp :: Discard; rt[0-2] => [0,0,0] arp;\n",
        "",
    ),
    ("wg :: WireGuard(wg0.conf", "", "Idle, Idle => [0,1] wg[0,1] => Discard, Discard;\n"),
];
/// What rule files in parts take for granted.
const ZONES: &str = "zone inside eth1\nzone outside eth0\nzone guests eth2\n";

/// A folder with the files of a page, on a machine with four interfaces.
struct Folder<'a> {
    page: &'a str,
    machine: &'a Namespace,
    files: tempfile::TempDir,
}

impl Folder<'_> {
    /// What a command prints, if it succeeds.
    fn run(&self, command: &str) -> Result<String, String> {
        let folder = self.files.path().display();
        let script = format!("cd {folder} && junctor() {{ {JUNCTOR} \"$@\"; }}; {{ {command}\n}} 2>&1");
        self.machine.run(&["sh", "-c", &script]).map_err(|why| why.to_string())
    }

    /// The same of a command in a line of the page.
    fn must(&self, line: usize, command: &str) -> String {
        self.run(command).unwrap_or_else(|why| panic!("{}:{line}: {command}\n{why}", self.page))
    }

    /// Writes a block as a file, whole, and returns its name.
    fn store(&self, block: &Block<'_>) -> String {
        let name =
            block.file().map_or_else(|| format!("line{}.{}", block.line, block.language), str::to_owned);
        let part = PARTS.iter().find(|(line, ..)| block.text.contains(line));
        let (before, after) = match block.language {
            "firewall" if !block.text.contains("zone ") => (ZONES, ""),
            _ => part.map_or(("", ""), |(_, before, after)| (*before, *after)),
        };
        std::fs::write(self.files.path().join(&name), [before, block.text, after].concat()).unwrap();
        name
    }

    /// Whether a command needs no running router, and no file that is not there.
    fn is_alone(&self, command: &str) -> bool {
        let words = command.strip_prefix("junctor ").unwrap_or_default();
        let is_file =
            |word: &&str| ["nat", "rules", "lb"].iter().any(|end| word.ends_with(&format!(".{end}")));
        ALONE.iter().any(|alone| words.starts_with(alone))
            && !command.contains(['$', '|'])
            && !command.contains("/etc/")
            && words.split(' ').filter(is_file).all(|name| self.files.path().join(name).exists())
    }

    /// Runs the commands of a block that need no router; returns how many there are.
    fn follow(&self, block: &Block<'_>) -> usize {
        let mut count = 0;
        for shown in block.commands() {
            let command = shown.command.strip_prefix("sudo ").unwrap_or(&shown.command);
            if !self.is_alone(command) {
                continue;
            }
            // Pages write the same directory again.
            if let Some((_, directory)) = command.split_once("--directory ") {
                let _ = std::fs::remove_dir_all(self.files.path().join(directory));
            }
            let said = self.must(block.line, command);
            shows(&said, &shown.output)
                .unwrap_or_else(|why| panic!("{}:{}: {command}\n{why}", self.page, block.line));
            let written = command.split_once(" > ").and_then(|(_, rest)| rest.split(' ').next());
            if let Some(name) = written.filter(|name| name.ends_with(".click")) {
                self.must(block.line, &format!("junctor check {name}"));
            }
            count += 1;
        }
        count
    }
}

/// Checks a page; returns how many files and how many commands it has.
fn check(machine: &Namespace, page: &str, text: &str) -> (usize, usize) {
    let folder = Folder { page, machine, files: tempfile::tempdir().unwrap() };
    let (mut files, mut commands) = (0, 0);
    folder.must(0, "echo 198.51.100.7 | gzip > blocked.txt.gz");
    for block in blocks(text) {
        assert!(!block.language.is_empty(), "{page}:{}: a block without a language", block.line);
        if let Some((_, command)) = FILES.iter().find(|(language, _)| *language == block.language) {
            let name = folder.store(&block);
            folder.must(block.line, &format!("junctor {command} {name}"));
            files += 1;
        }
        if block.is_script() {
            commands += folder.follow(&block);
        }
    }
    (files, commands)
}

#[test]
fn files_and_commands_of_the_guide() {
    if skip("files_and_commands_of_the_guide") {
        return;
    }
    let machine = Namespace::new("guide").unwrap();
    for n in 0..4 {
        machine.ip(&format!("link add eth{n} type veth peer name peer{n}")).unwrap();
    }
    let (mut files, mut commands) = (0, 0);
    for (page, text) in pages("docs/book/src/guide") {
        let found = check(&machine, &page, &text);
        files += found.0;
        commands += found.1;
    }
    assert!(files >= 25 && commands >= 15, "{files} files, {commands} commands");
}
