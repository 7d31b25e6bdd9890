// SPDX-License-Identifier: MIT OR Apache-2.0
// Starts `junctor lsp` and connects the editor with it.
const { workspace } = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
    const settings = workspace.getConfiguration("junctor");
    const clickpath = settings.get("clickpath");
    const server = {
        command: settings.get("path"),
        args: ["lsp", ...(clickpath ? ["--clickpath", clickpath] : [])],
        transport: TransportKind.stdio,
    };
    const languages = ["click", "junctor-firewall", "junctor-nat"];
    client = new LanguageClient("junctor", "Junctor", server, {
        documentSelector: languages.map((language) => ({ language })),
    });
    await client.start();
};

exports.deactivate = () => client?.stop();
