// What users of Anthropic's SDK for JavaScript do, told as JSON: one line a step.
import Anthropic from "@anthropic-ai/sdk";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";

const [baseURL, model, user_id] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey: "not needed", maxRetries: 0 });
const told = {};
const words = (message) => message.content.filter((one) => one.type === "text").map((one) => one.text).join("");
const asked = { model, max_tokens: 500, metadata: { user_id } };
const messages = [{ role: "user", content: "The code word for the pier is gull." }];

const whole = await client.messages.create({ ...asked, system: "Be brief.", messages }).withResponse();
told.whole = words(whole.data);
told.thread = whole.response.headers.get("x-thread-id");
messages.push(
  { role: "assistant", content: whole.data.content },
  { role: "user", content: "What is the code word for the pier?" },
);

const stream = client.messages.stream({ ...asked, messages });
told.pieces = 0;
stream.on("text", () => (told.pieces += 1));
const final = await stream.finalMessage();
told.streamed = words(final);
told.usage = final.usage.output_tokens > 0;

const tools = [{ name: "weather", description: "Tells it.", input_schema: { type: "object", properties: {} } }];
const question = { role: "user", content: "How is it in Bonn?" };
const called = await client.messages.create({ ...asked, tools, messages: [question] });
const use = called.content.find((one) => one.type === "tool_use");
const result = { type: "tool_result", tool_use_id: use.id, content: `rain in ${use.input.city}` };
const after = [question, { role: "assistant", content: called.content }, { role: "user", content: [result] }];
told.tool = words(await client.messages.create({ ...asked, tools, messages: after }));

const Town = z.object({ name: z.string(), people: z.number() });
const parsed = await client.messages.parse({
  ...asked,
  messages: [{ role: "user", content: "Which town?" }],
  output_config: { format: zodOutputFormat(Town) },
});
told.parsed = parsed.parsed_output;

try {
  await client.messages.create({ ...asked, model: "nobody", messages });
} catch (error) {
  told.error = [error.constructor.name, error.status, error.error.error.type];
}
told.counted = (await client.messages.countTokens({ model, messages })).input_tokens > 0;
told.models = (await client.models.list()).data.map((one) => one.id);
console.log(JSON.stringify(told));
