// SPDX-License-Identifier: MIT OR Apache-2.0
//! A new user of a machine of their own, who follows a page.
//!
//! The user types what stands in blocks `sh`, in order. A router, a deployment or a daemon has a terminal to itself; where the text
//! says "Ctrl-C", the user ends the last one. A block `text` behind commands is what they print, or the file that they write, unless
//! the text says "example".

use testbed::pages::{Block, blocks, shows};
use testbed::rig::{Namespace, wait_for};

use crate::machine::{Machine, PATIENCE, Up};

/// What differs from a user's hands and eyes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan<'a> {
    /// After a block with the first words, the user goes on when the second command succeeds.
    pub awaited: &'a [(&'a str, &'a str)],
    /// What is typed for words of the page: it shows the same in less time.
    pub instead: &'a [(&'a str, &'a str)],
    /// Lines with these words are left out, for this reason.
    pub left_out: &'a [(&'a str, &'a str)],
}

struct User<'a> {
    machine: Machine,
    plan: Plan<'a>,
    terminals: Vec<Up>,
    /// What runs in the background.
    background: Vec<Up>,
    /// What all commands have printed.
    said: String,
    /// What those of the last block have printed and written.
    last: String,
}

/// Follows a page, and returns what its commands have printed.
pub fn follow(page: &str, plan: Plan<'_>) -> String {
    let words = plan.awaited.iter().chain(plan.instead).chain(plan.left_out);
    for (words, _) in words {
        assert!(page.contains(words), "the page has no '{words}'");
    }
    let page = plan.instead.iter().fold(page.to_owned(), |page, (words, typed)| page.replace(words, typed));
    for (words, why) in plan.left_out {
        eprintln!("'{words}' is left out: {why}");
    }
    let is_typed = |line: &&str| !plan.left_out.iter().any(|(words, _)| line.contains(words));
    let page: String = page.lines().filter(is_typed).map(|line| format!("{line}\n")).collect();
    let machine = Machine::new(Namespace::new("page").unwrap());
    let mut user = User {
        machine,
        plan,
        terminals: Vec::new(),
        background: Vec::new(),
        said: String::new(),
        last: String::new(),
    };
    for block in blocks(&page) {
        user.reads(&block);
    }
    user.said
}

/// The last command of a block, if it goes on until it is ended, and those before.
fn split(text: &str) -> (&str, Option<&str>) {
    let (before, last) = text.trim_end().rsplit_once('\n').unwrap_or(("", text.trim_end()));
    let command = last.strip_prefix("sudo ").unwrap_or(last);
    let stays = ["junctor run ", "junctor up "].iter().any(|words| command.starts_with(words));
    if stays || command.contains("charon-systemd") || command.ends_with('&') {
        (before, Some(last))
    } else {
        (text, None)
    }
}

/// The files that commands write.
fn written(commands: &str) -> impl Iterator<Item = &str> {
    commands.lines().filter_map(|line| line.split_once(" > ")?.1.split(' ').next())
}

impl User<'_> {
    fn reads(&mut self, block: &Block<'_>) {
        match block.language {
            "sh" => self.types(block),
            "text" if !self.last.is_empty() && !block.before.contains("example") => {
                let lines: Vec<&str> = block.text.lines().collect();
                shows(&self.last, &lines).unwrap_or_else(|why| panic!("line {}: {why}", block.line));
            }
            _ => {}
        }
    }

    fn types(&mut self, block: &Block<'_>) {
        if block.before.contains("Ctrl-C") {
            self.terminals.pop().expect("a terminal to end").end();
        }
        let (commands, stays) = split(block.text);
        let since = std::time::Instant::now();
        let printed = self
            .machine
            .run(commands)
            .unwrap_or_else(|why| panic!("line {}: {commands}: {why}\n{}", block.line, self.said));
        eprintln!("line {}: {:.1} s", block.line, since.elapsed().as_secs_f64());
        self.said += &printed;
        self.last = printed;
        for name in written(commands) {
            self.last += &self.machine.file(name);
        }
        if let Some(command) = stays {
            self.starts(command);
        }
        for (_, condition) in self.plan.awaited.iter().filter(|(words, _)| block.text.contains(words)) {
            wait_for(condition, PATIENCE, || self.machine.run(condition).is_ok())
                .unwrap_or_else(|why| panic!("{why}\n{}", self.said));
        }
    }

    /// Gives a command a terminal. A router listens before the user goes on.
    fn starts(&mut self, command: &str) {
        if let Some(command) = command.strip_suffix('&') {
            self.background.push(Up(Some(self.machine.start(command))));
            return;
        }
        let mut process = self.machine.start(command);
        if let Some((_, router)) = command.split_once("junctor run ") {
            let socket = router.split_once("--control ").and_then(|(_, rest)| rest.split(' ').next());
            let list = match socket {
                Some(socket) => format!("junctor ctl --socket {socket} list"),
                None => "junctor ctl list".to_owned(),
            };
            let waited =
                wait_for(command, PATIENCE, || process.ended().is_some() || self.machine.run(&list).is_ok());
            let fails = process.ended().is_some() || waited.is_err();
            assert!(!fails, "{command}: {waited:?}\n{}\n{}", process.stdout(), process.stderr());
        }
        self.terminals.push(Up(Some(process)));
    }
}

#[test]
fn commands_that_stay() {
    assert_eq!(split("a\nsudo junctor run x\n"), ("a", Some("sudo junctor run x")));
    assert_eq!(split("junctor up x\n"), ("", Some("junctor up x")));
    assert_eq!(split("a\nb &\n"), ("a", Some("b &")));
    assert_eq!(split("ip netns exec a junctor run x\n").1, None);
    assert_eq!(written("a > b\nc >> d\ne\nf > g # h\n").collect::<Vec<_>>(), ["b", "g"]);
}
