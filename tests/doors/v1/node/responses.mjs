// What users of Responses do with OpenAI's SDK for JavaScript and with the AI SDK, as JSON.
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const [baseURL, model] = process.argv.slice(2);
const told = {};
const Town = z.object({ name: z.string(), people: z.number() });

const client = new OpenAI({ baseURL, apiKey: "not needed", maxRetries: 0 });
const first = await client.responses.create({ model, input: "The code word for the pier is gull." });
told.whole = first.output_text;
const stream = client.responses.stream({ model, input: "Which is it?", previous_response_id: first.id });
told.kinds = [];
for await (const event of stream) told.kinds.push(event.type);
told.streamed = (await stream.finalResponse()).output_text;
told.retrieved = (await client.responses.retrieve(first.id)).output_text;
const parsed = await client.responses.parse({ model, input: "Which town?", text: { format: zodTextFormat(Town, "town") } });
told.parsed = parsed.output_parsed;
try {
  await client.responses.retrieve("resp_00000000000000000000000000000000");
} catch (error) {
  told.error = [error.constructor.name, error.status, error.code];
}

const openai = createOpenAI({ baseURL, apiKey: "not needed" });
const weather = tool({
  description: "Tells the weather.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `rain in ${city}`,
});
const run = await generateText({
  model: openai(model),
  prompt: "How is it in Bonn?",
  tools: { weather },
  stopWhen: stepCountIs(3),
  maxRetries: 0,
});
told.tool = run.text;
const answered = run.steps.flatMap((step) => step.response.messages);
const messages = [{ role: "user", content: "How is it in Bonn?" }, ...answered];
const following = streamText({
  model: openai(model),
  messages: [...messages, { role: "user", content: "And in Cologne?" }],
  maxRetries: 0,
});
told.following = "";
for await (const piece of following.textStream) told.following += piece;
told.object = (await generateObject({ model: openai(model), schema: Town, prompt: "Which town?", maxRetries: 0 })).object;
console.log(JSON.stringify(told));
